"""Settings of linters in a project's own files."""

import os
import tomllib
from collections.abc import Iterable, Mapping, Sequence

from ..host.disk import plain_content

MOST = 1024 * 1024  # bytes of a project's settings
# Our rules for a project that has chosen no rules of Ruff: mistakes, not style.
RULES = (
    "E711,E712,E713,E714,E722,E9,F,W605,PLE,B002,B003,B005,B006,B012,B014,B015,B016,B021,"
    "B022,B025,B029,B031,B032,B033,B035,B039,S102,S307,S501,S506,S602,S605,S608,ASYNC210,ASYNC251"
)
# Left out: names from a star import, exceptions raised again and special methods cannot be judged here.
UNCERTAIN = "F403,F405,PLE0302,PLE0309,PLE0704"
_BY_OTHERS = "RUF100"  # whether a `noqa` has a purpose shows only if all rules are on that the project uses
# Left out even if a project chose their families: they demand the opposite of an earlier Ruff, are newer, or are
# uncertain.
_TURNED = ("PT001", "PT023", "PLC0415", "PLR0917", "ICN001", "F405")
_EVERY = "ALL"  # does not count as a choice, since every later Ruff has more rules
# in the order in which Ruff looks for them
_RUFF = ((".ruff.toml", ""), ("ruff.toml", ""), ("pyproject.toml", "ruff"))


def is_configured(cwd: str, *places: tuple[str, str]) -> bool:
    """Whether a project has settings: a file, or a table `tool.NAME` of a TOML file."""
    return any(
        _table(cwd, file, table) is not None if table else os.path.exists(os.path.join(cwd, file))
        for file, table in places
    )


def by_ruff_settings(cwd: str, paths: Iterable[str]) -> dict[str, list[str]]:
    """Paths by the directory whose Ruff settings apply: the nearest one with settings, else the project's."""
    has: dict[str, bool] = {}

    def nearest(directory: str) -> str:
        if not directory or os.path.isabs(directory):  # the project's settings, or others
            return cwd
        if directory not in has:
            has[directory] = is_configured(os.path.join(cwd, directory), *_RUFF)
        return os.path.join(cwd, directory) if has[directory] else nearest(os.path.dirname(directory))

    found: dict[str, list[str]] = {}
    for path in paths:
        found.setdefault(nearest(os.path.dirname(path)), []).append(path)
    return found


def has_chosen_rules(cwd: str) -> bool:
    """Whether a project chooses Ruff's rules itself."""
    return "--select" not in ruff_choice(cwd)


def ruff_choice(cwd: str) -> Sequence[str]:
    """Ruff's arguments for the rules: the project's, or ours if the project has settings but chose no rules."""
    if not is_configured(cwd, *_RUFF):
        return ("--isolated", "--select", RULES, "--ignore", UNCERTAIN)
    found = next((table for file, name in _RUFF if (table := _table(cwd, file, name)) is not None), None)
    lint = found and {**found, **_mapping(found.get("lint"))}
    selected = _words(lint.get("select")) if lint else []
    if not lint or "extend" in lint or ("select" in lint and _EVERY not in selected):
        unwanted = [code for code in _TURNED if code not in (*selected, *_words((lint or {}).get("extend-select")))]
        return ("--force-exclude", "--ignore", ",".join(unwanted)) if lint and unwanted else ("--force-exclude",)
    more = [code for code in (*selected, *_words(lint.get("extend-select"))) if code != _EVERY]
    less = [
        *_words(lint.get("ignore")),
        *_words(lint.get("extend-ignore")),
        *UNCERTAIN.split(","),
        _BY_OTHERS,
        *_TURNED,
    ]
    chosen = [code for code in (*UNCERTAIN.split(","), *_TURNED) if code in more]
    return (
        "--force-exclude",
        "--select",
        ",".join((RULES, *more)),
        "--ignore",
        ",".join(code for code in less if code not in chosen),
    )


def _table(cwd: str, file: str, name: str) -> Mapping[str, object] | None:
    """The settings in a TOML file: all of it, or its table `tool.NAME`; None if there are none."""
    try:
        read = tomllib.loads(plain_content(os.path.join(cwd, file), MOST).decode())
        found = read["tool"][name] if name else read
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


def _words(value: object) -> list[str]:
    """A list of codes; Ruff itself reports an invalid value."""
    return [word for word in value if isinstance(word, str)] if isinstance(value, list) else []

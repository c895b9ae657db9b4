"""`gateway.toml`: its values, overridden by flags and completed by defaults, each with its origin."""

import argparse
import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ...errors import Error
from ...foundation.suggesting import choices, nearest
from .settings import LIMIT_FLAG, LIMITS, Setting, all_settings

DEFAULT = "default"
MOST = 1024 * 1024  # bytes of a file
HEADER = re.compile(r"\s*\[([^\[\]]+)\]\s*(?:#.*)?")
KEY = re.compile(r"""\s*([\w."' -]+?)\s*=""")


class ConfigError(Error):
    """The file has errors; each of `problems` is a line with the place and the error."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__(problems[0])
        self.problems = problems


class Configuration:
    """The effective values by key, and the origin of each: a flag, a line of the file, the default."""

    def __init__(self, values: Mapping[str, object], origins: Mapping[str, str]) -> None:
        self.values, self.origins = values, origins

    def namespace(self) -> argparse.Namespace:
        """The values in the form of a parser's result; the limits are a mapping."""
        limits = {key.removeprefix(LIMITS): value for key, value in self.values.items() if key.startswith(LIMITS)}
        plain = {key: value for key, value in self.values.items() if not key.startswith(LIMITS)}
        return argparse.Namespace(**plain, limits=limits)

    def lines(self) -> Iterator[str]:
        """All values as a configuration file, with the origin of each in a comment."""
        tops = [key for key in self.values if not key.startswith(LIMITS)]
        yield from map(self._line, tops)
        yield from ("", f"[{LIMITS.rstrip('.')}]")
        yield from (self._line(key) for key in self.values if key.startswith(LIMITS))

    def _line(self, key: str) -> str:
        value, name = self.values[key], key.removeprefix(LIMITS)
        if value is None:
            return f"# {name} is not set"
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        return f"{name} = {json.dumps(value)}  # {self.origins[key]}"


def configuration(file: str | None, flags: argparse.Namespace) -> Configuration:
    """The settings of a file and flags together; raises ConfigError with all errors."""
    settings = {setting.key: setting for setting in all_settings()}
    values = {key: [] if one.shape == "many" else one.default for key, one in settings.items()}
    origins = dict.fromkeys(values, DEFAULT)
    if file is not None:
        for key, (value, at) in _read(Path(file), settings).items():
            values[key], origins[key] = value, at
    for key, value in vars(flags).items():
        if key in settings:
            values[key], origins[key] = value, settings[key].option
    for text in getattr(flags, "limit", ()):
        key, value = _limit(text, settings)
        values[key], origins[key] = value, LIMIT_FLAG
    return Configuration(values, origins)


def _limit(text: str, settings: Mapping[str, Setting]) -> tuple[str, object]:
    name, sign, amount = text.partition("=")
    known = [key.removeprefix(LIMITS) for key in settings if key.startswith(LIMITS)]
    if not sign or name not in known:
        raise Error(f"{LIMIT_FLAG} takes NAME=N, not {text!r}; {choices(name, known)}")
    try:
        return LIMITS + name, settings[LIMITS + name].read(amount)
    except argparse.ArgumentTypeError as exc:
        raise Error(f"{LIMIT_FLAG} {name}: {exc}") from None


def _read(file: Path, settings: Mapping[str, Setting]) -> dict[str, tuple[object, str]]:
    """The values of a file and their lines."""
    text = _text(file)
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as exc:
        raise ConfigError([f"{file}: {exc}"]) from None
    found: dict[str, tuple[object, str]] = {}
    problems = []
    places = _places(text)
    for key, value in _flat(document):
        at = f"{file}:{places.get(key, 1)}"
        if (setting := settings.get(key)) is None:
            near = nearest(key, settings)
            hint = f"; did you mean {near!r}?" if near else "; dragoman gateway config show lists the keys"
            problems.append(f"{at}: unknown key {key!r}{hint}")
            continue
        try:
            found[key] = _value(setting, value), at
        except argparse.ArgumentTypeError as exc:
            problems.append(f"{at}: {key}: {exc}")
    if problems:
        raise ConfigError(problems)
    return found


def _text(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            data = opened.read(MOST + 1)
        if len(data) > MOST:
            raise Error(f"{file} is larger than {MOST} bytes, so it is no configuration")
        return data.decode()
    except OSError as exc:
        raise Error(f"the configuration {file} cannot be read: {exc.strerror}") from None
    except UnicodeDecodeError:
        raise Error(f"the configuration {file} is not UTF-8") from None


def _flat(document: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    for key, value in document.items():
        if isinstance(value, dict):
            yield from ((f"{key}.{name}", inner) for name, inner in value.items())
        else:
            yield key, value


def _places(text: str) -> dict[str, int]:
    """The first line of each key, which the standard library's parser does not keep."""
    table, places = "", dict[str, int]()
    for number, line in enumerate(text.splitlines(), 1):
        if header := HEADER.fullmatch(line):
            table = _plain(header[1]) + "."
        elif key := KEY.match(line):
            places.setdefault(table + _plain(key[1]), number)
    return places


def _plain(key: str) -> str:
    return ".".join(part.strip().strip("\"'") for part in key.split("."))


def _value(setting: Setting, value: object) -> object:
    """A value of the file, read like the flag's text."""
    if setting.shape == "switch":
        return _checked(value, isinstance(value, bool), "true or false")
    if setting.shape == "many":
        return [setting.read(text) for text in _texts(value)]
    if isinstance(setting.metavar, tuple):
        texts = _texts(value)
        return _checked(texts, len(texts) == len(setting.metavar), f"a list: {', '.join(setting.metavar)}")
    if isinstance(value, list):
        value = ",".join(_texts(value))
    is_one = isinstance(value, str | int | float) and not isinstance(value, bool)
    text = str(_checked(value, is_one, "one text or number"))
    if setting.choices and text not in setting.choices:
        raise argparse.ArgumentTypeError(f"there is no {text!r}; {choices(text, setting.choices)}")
    return setting.read(text)


def _texts(value: object) -> list[str]:
    is_list = isinstance(value, list) and all(isinstance(one, str) for one in value)
    found = _checked(value, is_list, "a list of texts")
    return list(map(str, found)) if isinstance(found, list) else []


def _checked(value: object, is_right: bool, wanted: str) -> object:
    if not is_right:
        raise argparse.ArgumentTypeError(f"{value!r} is not {wanted}")
    return value

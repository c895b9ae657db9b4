"""Why a finding matters and what to do about it: a text for our own codes, a link for others."""

import functools
import re
import tomllib
from pathlib import Path

TEXTS = Path(__file__).with_name("explanations.toml")
SAME = dict.fromkeys(("fixme", "xxx", "hack"), "todo")

PAGES = (
    (re.compile(r"^SC\d+$"), "https://www.shellcheck.net/wiki/{code}"),
    (re.compile(r"^TS\d+$"), "https://typescript.tv/errors/#{lower}"),
    (re.compile(r"^E\d{4}$"), "https://doc.rust-lang.org/error_codes/{code}.html"),
    (re.compile(r"^[a-z]+(?:-[a-z]+)+$"), "https://docs.astral.sh/ty/reference/rules/#{code}"),
)


@functools.cache
def _texts() -> dict[str, str]:
    return tomllib.loads(TEXTS.read_text(encoding="utf-8"))


def own_explanation(code: str) -> str | None:
    return _texts().get(SAME.get(code.lower(), code.lower()))


def page_of(code: str) -> str | None:
    """The web page that explains a code of another linter; nothing is fetched."""
    for pattern, page in PAGES:
        if pattern.match(code):
            return page.format(code=code, lower=code.lower())
    return None

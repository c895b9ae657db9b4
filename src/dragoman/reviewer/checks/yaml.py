"""YAML as PyYAML reads it: syntax errors and repeated keys.

Templates for YAML are not checked, and without PyYAML nothing is.
"""

import re
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any, NamedTuple

from ..findings import Finding, Severity, Source
from .leftovers import LONGEST, TextLines, has_merge_markers
from .python import DEEPEST, nesting

SUFFIXES = (".yaml", ".yml")
_TEMPLATE = re.compile(r"^[ \t]*+(?:-[ \t]*+)?\{[{%]|\{%|\{\{-", re.MULTILINE)
_TAB = re.compile(r" *\t")
# Contexts whose beginning is the place of a mistake that is noticed later.
_BEGINS = ("while scanning a quoted scalar", "while parsing a flow", "while scanning a simple key")
_MERGE = "<<"  # the key that a mapping may have several times


class YamlProblem(NamedTuple):
    line: int
    code: str
    message: str
    advice: str


def is_known(source: Source) -> bool:
    """Whether a file is YAML that can be checked here."""
    return source.path.endswith(SUFFIXES) and find_spec("yaml") is not None


def yaml_syntax(source: Source) -> Iterator[Finding]:
    if not is_known(source) or _TEMPLATE.search(source.text) or has_merge_markers(source.text):
        return
    if nesting(source.text) > DEEPEST:
        return  # not written by hand, and the parser's time grows with its square
    lines = TextLines(source.text)
    for line, code, message, advice in _problems(source.text):
        if lines.length(line) < LONGEST:
            severity: Severity = "warning" if code == "yaml-duplicate-key" else "error"
            yield Finding(source.path, line, severity, code, message, advice, is_whole=severity == "error")


def _problems(text: str) -> Iterator[YamlProblem]:
    import yaml  # loaded with the first file that needs it

    last = max(1, text.count("\n") + (not text.endswith("\n")))
    loader: Any = getattr(yaml, "CLoader", yaml.Loader)
    try:
        yield from _repeated_keys(yaml.parse(text, Loader=loader))
    except yaml.MarkedYAMLError as exc:
        begins = exc.context_mark and (exc.context or "").startswith(_BEGINS)
        mark = exc.context_mark if begins else exc.problem_mark or exc.context_mark
        line = min(mark.line + 1 if mark else last, last)
        if _TAB.match(text.split("\n")[line - 1]):
            yield YamlProblem(
                line, "yaml-tab", "a tab where indentation is counted in spaces", "indent with spaces"
            )
        else:
            said = exc.problem or exc.context or "it cannot be read"
            yield YamlProblem(
                line, "yaml-syntax", f"not valid YAML: {said}", "nothing can read it until it is corrected"
            )
    except yaml.YAMLError as exc:  # a character that may not be in it
        said = " ".join(str(exc).split())[:200]
        yield YamlProblem(1, "yaml-syntax", f"not valid YAML: {said}", "nothing can read it until it is corrected")
    except RecursionError:
        yield YamlProblem(1, "yaml-syntax", "nested too deeply to be read", "flatten it")


class _Open:
    """A mapping or a list that is being read."""

    def __init__(self, is_mapping: bool) -> None:
        self.is_mapping = is_mapping
        self.wants_key = is_mapping
        self.keys: dict[str, int] = {}


def _repeated_keys(events: Iterator[Any]) -> Iterator[YamlProblem]:
    import yaml

    stack: list[_Open] = []
    for event in events:
        inner = stack[-1] if stack else None
        if isinstance(event, yaml.ScalarEvent) and inner and inner.wants_key and event.value != _MERGE:
            line = event.start_mark.line + 1
            if event.value in inner.keys:
                message = f"the key {event.value[:80]!r} is given twice, first in line {inner.keys[event.value]}"
                yield YamlProblem(
                    line, "yaml-duplicate-key", message, "keep one of them; which one counts is a guess"
                )
            inner.keys.setdefault(event.value, line)
        if isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
            stack.append(_Open(isinstance(event, yaml.MappingStartEvent)))
            continue
        if isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            stack.pop()
        elif not isinstance(event, yaml.ScalarEvent | yaml.AliasEvent):
            continue
        if stack and stack[-1].is_mapping:
            stack[-1].wants_key = not stack[-1].wants_key

"""Classifies a file by its place in the project and its first lines."""

import re

from ..findings import Source

_TEST_DIRECTORY = r"(?:^|/)(?:tests?|testing|t|specs?|__tests__)/"
_TEST = re.compile(rf"{_TEST_DIRECTORY}|(?:^|/)(?:test_[^/]*|[^/]*_test\.\w+|conftest\.py)$")
_TEST_DATA = re.compile(
    r"(?:^|/)(?:testdata|test[-_]data|fixtures?|examplefiles|snippets|goldens?|snapshots?|corpus)/"
    rf"|{_TEST_DIRECTORY}(?:[^/]+/)*"
    r"(?:data|files|inputs?|outputs?|expected|samples?|templates?|resources|cases|assets|fuzz)/"
)
_BUNDLED = re.compile(r"(?:^|/)(?:deps|externals?|extern|bundled)/")
# The first lines of generated files.
_MADE = re.compile(
    r"(?i)^[ \t]*(?:#|//|/\*|\*|--|;|<!--|\"\"\"|\.\.).*"
    r"(?:\bdo not (?:edit|modify|change)\b|@generated\b|\bauto-?generated\b|\bgenerated (?:by|from|with|using)\b)",
    re.MULTILINE,
)
_MIGRATION = re.compile(
    r"(?:^|/)migrations/(?:.*/)?\d{4}_\w+\.py$|(?:^|/)(?:alembic|migrations)/versions/[^/]+\.py$"
)
_TEMPLATE = re.compile(r"(?i)templat|cookiecutter|skeleton|scaffold|boilerplate|\{\{|\.(?:j2|jinja2?|tmpl|tpl|in)$")
_FILLED_IN = re.compile(r"\{\{|\{%|<%|\$\{|@\w+@")
_TOP = 10  # lines
_APART = re.compile(  # files that are not imported
    r"(?:^|/)(?:examples?|docs?|scripts?|tools|bench(?:marks?)?|demos?)/|(?:^|/)(?:setup|conf|noxfile|tasks|fabfile)\.py$"
)


def is_test(path: str) -> bool:
    """Whether a file belongs to the tests of a project."""
    return bool(_TEST.search(path))


def is_test_data(path: str) -> bool:
    """Whether a file is the input of a test, whose faults are intended."""
    return bool(_TEST_DATA.search(path))


def reason_apart(source: Source) -> str:
    """Why findings in a file would not be repaired; empty if they would."""
    if why := reason_of_place(source.path):
        return why
    if _TEMPLATE.search(source.path) and _FILLED_IN.search(source.text):
        return "it is a template"
    return "a program made it" if _MADE.search("\n".join(source.text[:4000].split("\n")[:_TOP])) else ""


def reason_of_place(path: str) -> str:
    """The same, as far as a path shows it; the path of a directory ends with a slash."""
    if is_test_data(path):
        return "tests work on it"
    if _MIGRATION.search(path):
        return "a program made it"
    return "it is a copy of someone else's file" if _BUNDLED.search(path) else ""


def is_library(path: str) -> bool:
    """Whether a module may be imported by projects that we do not see."""
    return not is_test(path) and not _APART.search(path)

"""What a file's place in a project tells of it."""

import re

_TEST_DIRECTORY = r"(?:^|/)(?:tests?|testing|t|specs?|__tests__)/"
_TEST = re.compile(rf"{_TEST_DIRECTORY}|(?:^|/)(?:test_[^/]*|[^/]*_test\.\w+|conftest\.py)$")
_TEST_DATA = re.compile(
    r"(?:^|/)(?:testdata|test[-_]data|fixtures?|examplefiles|snippets|goldens?|snapshots?|corpus)/"
    rf"|{_TEST_DIRECTORY}(?:[^/]+/)*"
    r"(?:data|files|inputs?|outputs?|expected|samples?|templates?|resources|cases|assets|fuzz)/"
)
_APART = re.compile(  # what nobody imports
    r"(?:^|/)(?:examples?|docs?|scripts?|tools|bench(?:marks?)?|demos?)/|(?:^|/)(?:setup|conf|noxfile|tasks|fabfile)\.py$"
)


def is_test(path: str) -> bool:
    """Whether a file belongs to the tests of a project."""
    return bool(_TEST.search(path))


def is_test_data(path: str) -> bool:
    """Whether a file is what a test works on: it is what it is on purpose."""
    return bool(_TEST_DATA.search(path))


def is_library(path: str) -> bool:
    """Whether a module may be there for others to import, in projects that we do not see."""
    return not is_test(path) and not _APART.search(path)

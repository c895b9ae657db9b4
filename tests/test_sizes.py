"""Nothing has grown out of hand, and nothing is called what says nothing."""

import ast
import re
from collections import Counter
from pathlib import Path

TESTS = Path(__file__).parent
SOURCE = TESTS.parent / "src" / "dragoman"
LONGEST_MODULE = 450
LONGEST_FUNCTION = 60
MOST_MODULES = 15  # in a directory; the schema has one for each topic of the protocol
EMPTY_WORDS = {"utils", "util", "helpers", "helper", "common", "misc", "manager", "managers"}
EMPTY_CLASS_NAMES = re.compile(r"(?:^Base|Base$|Impl$|Manager$|Helper$|Utils?$|^Abstract)")

SOURCES = {str(path.relative_to(SOURCE)): path.read_text() for path in sorted(SOURCE.rglob("*.py"))}
NODES = [(path, node) for path, text in SOURCES.items() for node in ast.walk(ast.parse(text))]
FUNCTIONS = [(path, node) for path, node in NODES if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
CLASSES = [(path, node) for path, node in NODES if isinstance(node, ast.ClassDef)]


def test_no_module_is_too_long() -> None:
    assert not [path for path, text in SOURCES.items() if len(text.splitlines()) > LONGEST_MODULE]


def test_no_directory_is_a_heap() -> None:
    modules = Counter(str(Path(path).parent) for path in SOURCES)
    heaps = {place for place, count in modules.items() if count > MOST_MODULES}
    assert heaps <= {"schema", "schema/v2"}


def test_no_two_public_classes_share_a_name() -> None:
    public = Counter(
        node.name for path, node in CLASSES if not path.startswith("schema/") and not node.name.startswith("_")
    )
    assert not [name for name, count in public.items() if count > 1]


def test_no_two_test_modules_have_the_same_full_name() -> None:
    modules = Counter(path.stem for path in TESTS.rglob("test_*.py") if not (path.parent / "__init__.py").exists())
    assert not [name for name, count in modules.items() if count > 1]  # pytest would collect only one of them


def test_no_function_is_too_long() -> None:
    lengths = [(path, node.name, (node.end_lineno or 0) - node.lineno + 1) for path, node in FUNCTIONS]
    assert not [found for found in lengths if found[2] > LONGEST_FUNCTION]


def test_every_module_is_called_what_it_is() -> None:
    assert not [path for path in SOURCES if set(re.split(r"[/_.]", path)) & EMPTY_WORDS]


def test_every_class_is_called_what_it_is() -> None:
    assert not [(path, node.name) for path, node in CLASSES if EMPTY_CLASS_NAMES.search(node.name)]


def test_every_function_is_called_what_it_does() -> None:
    assert not [(path, node.name) for path, node in FUNCTIONS if set(node.name.split("_")) & EMPTY_WORDS]

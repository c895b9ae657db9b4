"""One message for each type, read, written and held against the official schema."""

import json
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dragoman import codec, schema
from dragoman.schema.base import Shape

SHARED = Path(__file__).parents[2].parent / "shared" / "schema"
STRUCTS = {
    name: tp
    for name in schema.__all__
    if isinstance(tp := getattr(schema, name), type) and issubclass(tp, msgspec.Struct)
}
FROZEN = {"nes", "documents", "mcp_connection"}  # modules the official schema no longer has


def read_goldens() -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for path in sorted((Path(__file__).parent / "golden").glob("*.json")):
        for name, some in json.loads(path.read_text()).items():
            assert STRUCTS[name].__module__.endswith(f".{path.stem}"), f"{name} is not at home in {path.name}"
            found[name] = some if isinstance(some, list) else [some]
    return found


GOLDENS = read_goldens()


def examples(of: Callable[[Any], bool] = bool) -> list[Any]:
    return [
        pytest.param(STRUCTS[name], example, id=f"{name}-{number}")
        for name, found in GOLDENS.items()
        if of(STRUCTS[name])
        for number, example in enumerate(found)
    ]


def official_one(tp: type) -> bool:
    return tp.__module__.rpartition(".")[2] not in FROZEN


def has_meta(tp: Any) -> bool:
    return "_meta" in tp.__struct_encode_fields__


def test_every_type_has_a_golden_message() -> None:
    twins = {"InitializeProxyRequest", "InitializeProxyResponse", "AvailableCommandInput"}  # second names
    assert set(STRUCTS) - twins == set(GOLDENS)


@pytest.mark.parametrize("name", GOLDENS)
def test_the_golden_messages_of_a_type_fill_every_field(name: str) -> None:
    filled = {key for example in GOLDENS[name] for key in example}
    config = STRUCTS[name].__struct_config__
    wanted = {field.encode_name for field in msgspec.structs.fields(STRUCTS[name])} - {"_meta"}
    assert wanted | ({config.tag_field} if config.tag else set()) == filled - {"_meta"}


@pytest.mark.parametrize(("tp", "example"), examples())
def test_a_golden_message_is_written_as_it_was_read(tp: Any, example: Any) -> None:
    message = codec.decode_strict(json.dumps(example).encode(), tp)
    written = codec.encode(message)
    assert json.loads(written) == example
    assert codec.decode_strict(written, tp) == message


@pytest.mark.parametrize(("tp", "example"), examples(has_meta))
def test_a_golden_message_reads_the_same_on_the_lenient_path(tp: Any, example: Any) -> None:
    good = json.dumps(example).encode()
    bad = json.dumps({**example, "_meta": "not an object"}).encode()  # forces the lenient path
    message = codec.decode(good, tp)
    assert codec.decode(bad, tp) == msgspec.structs.replace(message, meta=None)


@pytest.fixture(scope="module")
def official() -> Any:
    path = SHARED / "v1" / "schema.unstable.json"
    if not path.is_file():
        pytest.skip("the official schema is not next to the project")
    return json.loads(path.read_text())


@pytest.mark.parametrize(("tp", "example"), examples(official_one))
def test_a_golden_message_is_valid_by_the_official_schema(tp: Any, example: Any, official: Any) -> None:
    names = {tp.__name__, *unions_of(tp)} & set(official["$defs"])
    assert names
    for name in names:
        assert mistakes(official, name, example) == []


def test_a_spoilt_message_is_not_valid_by_the_official_schema(official: Any) -> None:
    assert mistakes(official, "ContentBlock", {"type": "text", "text": 5})
    assert mistakes(official, "ToolCall", {"toolCallId": "call_1"})


def unions_of(tp: type) -> set[str]:
    """The unions a type is an arm of, by the names they have in the schema."""
    found = set()
    for name in schema.__all__:
        union = getattr(schema, name)
        is_shape = isinstance(union, type) and issubclass(union, Shape)
        if tp in (union.arms if is_shape else typing.get_args(union)):
            found.add(name)
    return found


def mistakes(official: Any, name: str, example: Any) -> list[str]:
    jsonschema = pytest.importorskip("jsonschema")
    of_type = {**official, "anyOf": [{"$ref": f"#/$defs/{name}"}]}
    return [error.message for error in jsonschema.Draft202012Validator(of_type).iter_errors(example)]

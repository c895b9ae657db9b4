"""One message for each type, read, written and held against the official schema."""

import json
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
from facts_as_schema import as_schema
from parity import load

from dragoman import codec, schema
from dragoman.schema import v2
from dragoman.schema.base import Shape

GOLDEN = Path(__file__).parent / "golden"
FROZEN = {"nes", "documents", "mcp_connection"}  # modules the official schema no longer has


def structs_of(package: Any) -> dict[str, type]:
    """The structs at home in a package: what v2 shares with v1 has its golden messages there."""
    return {
        name: tp
        for name in package.__all__
        if isinstance(tp := getattr(package, name), type)
        and issubclass(tp, msgspec.Struct)
        and tp.__module__.rpartition(".")[0] == package.__name__
    }


STRUCTS = {**structs_of(schema), **{f"v2.{name}": tp for name, tp in structs_of(v2).items()}}


def read_goldens() -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for path in [*sorted(GOLDEN.glob("*.json")), *sorted(GOLDEN.glob("v2/*.json"))]:
        prefix = "v2." if path.parent.name == "v2" else ""
        for name, some in json.loads(path.read_text()).items():
            tp = STRUCTS[prefix + name]
            assert tp.__module__.endswith(f".{prefix}{path.stem}"), f"{name} is not at home in {path.name}"
            found[prefix + name] = some if isinstance(some, list) else [some]
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


def package_of(tp: type) -> Any:
    return v2 if tp.__module__.startswith(v2.__name__) else schema


def has_meta(tp: Any) -> bool:
    return "_meta" in tp.__struct_encode_fields__


def test_every_type_has_a_golden_message() -> None:
    twins = {"InitializeProxyRequest", "InitializeProxyResponse", "AvailableCommandInput"}  # second names
    twins |= {"v2.InitializeProxyRequest", "v2.InitializeProxyResponse"}
    assert set(STRUCTS) - twins == set(GOLDENS)


@pytest.mark.parametrize("name", GOLDENS)
def test_the_golden_messages_of_a_type_fill_every_field(name: str) -> None:
    filled = {key for example in GOLDENS[name] for key in example}
    config = STRUCTS[name].__struct_config__
    wanted = {field.encode_name for field in msgspec.structs.fields(STRUCTS[name])} - {"_meta"}
    assert wanted | ({config.tag_field} if config.tag else set()) == filled - {"_meta"}


@pytest.mark.parametrize(("tp", "example"), examples())
def test_a_golden_message_is_written_as_it_was_read(tp: Any, example: Any) -> None:
    read = codec.decode if package_of(tp) is v2 else codec.decode_strict  # v2 has room for variants nobody knows
    message = read(json.dumps(example).encode(), tp)
    written = codec.encode(message)
    assert json.loads(written) == example
    assert codec.encode(read(written, tp)) == written


@pytest.mark.parametrize(("tp", "example"), examples(has_meta))
def test_a_golden_message_reads_the_same_on_the_lenient_path(tp: Any, example: Any) -> None:
    good = json.dumps(example).encode()
    bad = json.dumps({**example, "_meta": "not an object"}).encode()  # forces the lenient path
    message = codec.decode(good, tp)
    (meta,) = (field for field in msgspec.structs.fields(tp) if field.name == "meta")
    assert codec.decode(bad, tp) == msgspec.structs.replace(message, meta=meta.default)


OFFICIAL = {schema: as_schema(load("v1")), v2: as_schema(load("v2"))}  # by package


@pytest.mark.parametrize(("tp", "example"), examples(official_one))
def test_a_golden_message_is_valid_by_the_official_schema(tp: Any, example: Any) -> None:
    theirs = OFFICIAL[package_of(tp)]
    names = {tp.__name__, *unions_of(tp)} & set(theirs["$defs"])
    assert names
    for name in names:
        assert mistakes(theirs, name, example) == []


@pytest.mark.parametrize(
    ("package", "name", "message"),
    [
        (schema, "ContentBlock", {"type": "text", "text": 5}),
        (schema, "ContentBlock", {"type": "text"}),
        (schema, "ContentBlock", {"text": "no type"}),
        (schema, "ToolCall", {"toolCallId": "call_1"}),
        (schema, "SessionUpdate", {"sessionUpdate": "plan", "entries": [{"content": "x", "priority": "odd"}]}),
        (schema, "RequestPermissionOutcome", {"outcome": "selected"}),
        (schema, "InitializeRequest", {"protocolVersion": -1}),
        (schema, "EnvVariable", {"name": "A", "value": None}),
        (v2, "PromptResponse", {}),
    ],
)
def test_a_spoilt_message_is_not_valid_by_the_official_schema(package: Any, name: str, message: Any) -> None:
    assert mistakes(OFFICIAL[package], name, message)


def unions_of(tp: type) -> set[str]:
    """The unions a type is an arm of, by the names they have in the schema."""
    found = set()
    for name in (package := package_of(tp)).__all__:
        union = getattr(package, name)
        is_shape = isinstance(union, type) and issubclass(union, Shape)
        if tp in (union.arms if is_shape else typing.get_args(union)):
            found.add(name)
    return found


def mistakes(official: Any, name: str, example: Any) -> list[str]:
    of_type = {**official, "anyOf": [{"$ref": f"#/$defs/{name}"}]}
    return [error.message for error in jsonschema.Draft202012Validator(of_type).iter_errors(example)]

"""Our types against the facts of the official schema, both ways: every difference has a name."""

import copy
import json
import subprocess
import sys
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Raw, Struct, UnsetType

from dragoman import schema
from dragoman.schema.base import Shape

Node = dict[str, Any]

FACTS = Path(__file__).parent / "facts"
ROOT = Path(__file__).parents[2]
SHARED = ROOT.parent / "shared" / "schema"

NOT_OURS = {  # in the schema, and on purpose without a type of that name
    "ExtRequest": "any JSON",
    "ExtResponse": "any JSON",
    "ExtNotification": "any JSON",
    "ElicitationFormMode": "FormElicitation",
    "ElicitationUrlMode": "UrlElicitation",
    "ElicitationSessionScope": "fields of FormElicitation and UrlElicitation",
    "ElicitationRequestScope": "fields of FormElicitation and UrlElicitation",
    "ErrorStopReason": "a field of IdleStateUpdate",
}
NOT_THEIRS = {  # exported, and on purpose without a name in the schema
    "UNSET": "msgspec's word for left out",
    "UnsetType": "its type",
    "Raw": "msgspec's word for JSON kept as it was",
    "JsonObject": "any JSON object",
    "SessionConfigSelectEntry": "an item of SessionConfigSelectOptions",
    "AnyMcpRequest": "MessageMcpRequest of either generation",
    "AnyMcpNotification": "MessageMcpNotification of either generation",
}
ARMS = {  # arms of a union whose class has a name of our own
    ("SessionUpdate", "user_message_chunk"): "UserMessageChunk",
    ("SessionUpdate", "agent_message_chunk"): "AgentMessageChunk",
    ("SessionUpdate", "agent_thought_chunk"): "AgentThoughtChunk",
    ("SessionUpdate", "tool_call_update"): "ToolCallUpdated",
    ("RequestPermissionOutcome", "cancelled"): "CancelledPermissionOutcome",
    ("CreateElicitationRequest", "form"): "FormElicitation",
    ("CreateElicitationRequest", "url"): "UrlElicitation",
    ("CreateElicitationResponse", "decline"): "ElicitationDecline",
    ("CreateElicitationResponse", "cancel"): "ElicitationCancel",
}
ONE_STRUCT = {  # unions there, one struct with all their fields here
    "ElicitationFormMode",
    "ElicitationUrlMode",
    "IdleStateUpdate",
    "MessageMcpResponse",
    "SetSessionConfigOptionRequest",
}
WIDER = {"PromptResponse.stopReason"}  # closed there; a reader must survive a new reason
CLOSED = {"RequestPermissionOutcome"}  # never an unknown variant: it could pass for a yes

INTEGERS = {
    (0, 2**16 - 1): "uint16",
    (0, 2**32 - 1): "uint32",
    (0, None): "uint64",
    (-(2**31), 2**31 - 1): "int32",
}
PRIMITIVES = {str: "string", bool: "boolean", float: "double", int: "int64", Any: "any"}
READINGS = {"exact": "Exact", "lenient": "Lenient", "nullable": "Nullable"}


# ── what the facts say ────────────────────────────────────────────────────────────────────────────


def load() -> Node:
    """The facts about all types, the frozen ones under the names they have here."""
    found: Node = json.loads((FACTS / "v1.json").read_text())["types"]
    frozen = json.loads((FACTS / "frozen.json").read_text())
    for name, fact in frozen["types"].items():
        if name in found and name not in frozen["renamed"]:
            found[name]["fields"].update(fact["fields"])
        else:
            found[frozen["renamed"].get(name, name)] = fact
    return found


def said(facts: Node, name: str) -> str:
    """A type of the facts, spelled so that `seen` spells the same type of ours alike."""
    if name.endswith("[]"):
        return f"{said(facts, name[:-2])}[]"
    if name.startswith("map<"):
        return f"map<{said(facts, name[4:-1])}>"
    fact = facts.get(name, {"kind": "primitive"})
    if fact["kind"] == "alias":
        return said(facts, fact["type"])
    if fact["kind"] == "enum":
        return spell_enum(fact["values"], fact["open"])
    if fact["kind"] == "union" and name not in ONE_STRUCT:
        arms = [arm_class(name, arm) for arm in fact["arms"]]
        if all(arm.endswith("[]") for arm in arms):  # lists of one kind each read as one list of either
            return f"{spell_union(said(facts, arm[:-2]) for arm in arms)}[]"
        return spell_union(said(facts, arm) for arm in arms if arm != "null")
    return name


def spell_enum(values: Sequence[object], is_open: bool) -> str:
    return "|".join(sorted(map(str, values))) + ("|..." if is_open else "")


def spell_union(names: typing.Iterable[str]) -> str:
    return " or ".join(sorted(set(names)))


def arm_class(union: str, arm: Node) -> str:
    return str(ARMS.get((union, arm.get("tag", "")), arm.get("type")))


def takes_null(facts: Node, field: Node) -> bool:
    fact = facts.get(field["type"], {})
    return bool(
        field["nullable"] or fact.get("nullable") or any(arm.get("type") == "null" for arm in fact.get("arms", []))
    )


def expected(facts: Node) -> Node:
    """Class name -> whether it has `_meta`, its tag, and for each field what must be true of it."""
    found: Node = {}
    for name, fact in facts.items():
        if fact["kind"] == "object":
            found[name] = {"meta": fact["meta"], "tag": None, "fields": known(facts, fact["fields"])}
        elif name in ONE_STRUCT:
            found[name] = fold(facts, fact)
    for name, fact in facts.items():
        if fact["kind"] != "union" or name in ONE_STRUCT:
            continue
        for arm in fact["arms"]:
            inner = found.get(arm.get("type"), {"meta": False, "fields": {}})
            if arm.get("type") and arm["type"] not in found:
                continue  # a string, a list, a number
            found[arm_class(name, arm)] = {
                "meta": fact["meta"] or inner["meta"],
                "tag": (fact["tag"], arm["tag"]) if "tag" in arm else None,
                "fields": {**known(facts, fact["fields"]), **inner["fields"]},
            }
    return {name: fact for name, fact in found.items() if name not in NOT_OURS}


def known(facts: Node, fields: Node) -> Node:
    return {
        key: {
            "type": said(facts, field["type"]),
            "required": field["required"],
            "nullable": takes_null(facts, field),
            "mark": field["mark"],
            "limits": field.get("limits", {}),
            **({"default": field["default"]} if "default" in field else {}),
        }
        for key, field in fields.items()
    }


def fold(facts: Node, fact: Node) -> Node:
    """A union read as one struct: what only one arm demands is optional, and lenient, in the whole."""
    fields = known(facts, fact["fields"])
    arms = [{**fields_of(facts, arm.get("type")), **arm.get("fields", {})} for arm in fact["arms"]]
    for key in {key: None for arm in arms for key in arm if key != fact["tag"]}:
        uses = [known(facts, {key: arm[key]})[key] for arm in arms if key in arm]
        everywhere = len(uses) == len(arms)
        partly = not everywhere and any(use["required"] for use in uses)
        fields[key] = {
            **uses[0],
            "type": spell_union(use["type"] for use in uses),
            "required": everywhere and all(use["required"] for use in uses),
            "nullable": None if partly else uses[0]["nullable"],  # null there is no more than another arm
            "mark": "E" if partly else uses[0]["mark"],
        }
    if fact["tag"]:
        tags = spell_enum([arm["tag"] for arm in fact["arms"] if "tag" in arm], True)
        old = fields.get(fact["tag"], {"required": False, "nullable": None, "mark": "E", "limits": {}})
        fields[fact["tag"]] = {**old, "type": tags}
    meta = fact["meta"] or any(arm.get("meta") for arm in fact["arms"])
    return {"meta": meta, "tag": None, "fields": fields}


def fields_of(facts: Node, name: str | None) -> Node:
    return dict(facts[name]["fields"]) if name else {}


# ── what our types say ────────────────────────────────────────────────────────────────────────────


def seen(tp: Any) -> str:
    """A type of ours without null and UNSET, spelled as `said` spells those of the facts."""
    if tp in PRIMITIVES:
        return PRIMITIVES[tp]
    if isinstance(tp, type) and issubclass(tp, Shape):
        return spell_union(arm.__name__ for arm in tp.arms if issubclass(arm, Struct))
    if isinstance(tp, type):
        return tp.__name__
    origin, args = typing.get_origin(tp), typing.get_args(tp)
    if origin is typing.Annotated:
        meta = args[1]
        return INTEGERS[meta.ge, meta.le] if args[0] is int else seen(args[0])
    if origin is Sequence:
        return f"{seen(args[0])}[]"
    if origin is Mapping:
        return "object" if args[1] is Any else f"map<{seen(args[1])}>"
    return seen_union(args_of(tp))


def seen_union(args: Sequence[Any]) -> str:
    literals = [arg for arg in args if typing.get_origin(arg) is typing.Literal]
    if literals:
        values = [value for literal in literals for value in typing.get_args(literal)]
        return spell_enum(values, len(literals) < len(args))
    return spell_union(seen(arg) for arg in args if arg is not Raw)


def args_of(tp: Any) -> list[Any]:
    """The arms of a union, or the type itself, without null and UNSET."""
    is_union = typing.get_origin(tp) in (typing.Union, types.UnionType)
    args = typing.get_args(tp) if is_union else (tp,)
    return [arg for arg in args if arg not in (type(None), UnsetType)]


def seen_field(field: msgspec.structs.FieldInfo) -> Node:
    inner, notes = field.type, []
    while typing.get_origin(inner) is typing.Annotated:
        inner, *more = typing.get_args(inner)
        notes += more
    word = next((note.extra["reading"] for note in notes if note.extra), None)
    name = seen(field.type)
    lenient = "ES" if name.endswith("[]") else "E"
    plain = "" if field.required else lenient
    mark = {"exact": "", "lenient": lenient, "nullable": "N", None: plain}[word]
    shortest = next((note.min_length for note in notes if note.min_length is not None), None)
    return {
        "type": name,
        "required": field.required,
        "nullable": inner is Any or type(None) in typing.get_args(inner),
        "mark": mark,
        "word": READINGS.get(word or "", "no mark"),
        "limits": {} if shortest is None else {"minLength": shortest},
        "default": field.default,
    }


def struct_of(tp: Any) -> bool:
    return isinstance(tp, type) and issubclass(tp, Struct)


# ── the comparison ────────────────────────────────────────────────────────────────────────────────


def differences(facts: Node, ours: Mapping[str, Any]) -> list[str]:
    """Every way in which our types differ from the facts, in words; none is what we want."""
    classes = expected(facts)
    return [
        *compare_names(facts, ours, classes),
        *(line for name in sorted(classes) if name in ours for line in compare_class(name, ours, classes)),
        *(line for name in sorted(facts) if name in ours for line in compare_other(name, ours, facts)),
    ]


def compare_names(facts: Node, ours: Mapping[str, Any], classes: Node) -> Iterator[str]:
    wanted = {name for name in facts if name not in NOT_OURS and facts[name]["kind"] != "envelope"}
    for name in sorted((wanted | set(classes)) - set(ours)):
        yield f"{name}: missing type"
    for name in sorted(set(ours) - wanted - set(classes) - set(NOT_THEIRS)):
        yield f"{name}: extra type"


def compare_class(name: str, ours: Mapping[str, Any], classes: Node) -> Iterator[str]:
    cls, want = ours[name], classes[name]
    if not struct_of(cls):
        yield f"{name}: not a struct"
        return
    config = cls.__struct_config__
    tag = (config.tag_field, config.tag) if config.tag is not None else None
    if tag != want["tag"]:
        yield f"{name}: tag differs: schema {want['tag']}, ours {tag}"
    fields = {field.encode_name: field for field in msgspec.structs.fields(cls)}
    if ("_meta" in fields) != want["meta"]:
        yield f"{name}: {'missing' if want['meta'] else 'extra'} _meta"
    fields.pop("_meta", None)
    for key in sorted(set(want["fields"]) | set(fields)):
        if key not in fields:
            yield f"{name}.{key}: missing field"
        elif key not in want["fields"]:
            yield f"{name}.{key}: extra field"
        else:
            yield from compare_field(f"{name}.{key}", seen_field(fields[key]), want["fields"][key])


def compare_field(place: str, have: Node, want: Node) -> Iterator[str]:
    if have["required"] != want["required"]:
        here, there = ("required", "optional") if have["required"] else ("optional", "required")
        yield f"{place}: {here} here, {there} there"
    if want["nullable"] is not None and have["nullable"] != want["nullable"]:
        yield f"{place}: null is {'taken' if have['nullable'] else 'refused'} here and not there"
    if have["mark"] != want["mark"] and want["type"] != "any":  # nothing fails to fit any JSON
        yield f"{place}: mark differs: schema {want['mark'] or 'none'}, ours {have['word']}"
    wider = "|..." if place in WIDER else ""
    if have["type"] != want["type"] + wider:
        yield f"{place}: type differs: schema {want['type']}, ours {have['type']}"
    if have["limits"] != want["limits"]:
        yield f"{place}: limits differ: schema {want['limits']}, ours {have['limits']}"
    if "default" in want and have["default"] not in (want["default"], msgspec.NODEFAULT):
        yield f"{place}: default differs: schema {want['default']!r}, ours {have['default']!r}"


def compare_other(name: str, ours: Mapping[str, Any], facts: Node) -> Iterator[str]:
    fact, tp = facts[name], ours[name]
    if fact["kind"] == "enum":
        yield from compare_enum(name, tp, fact)
    elif fact["kind"] == "union" and name not in ONE_STRUCT:
        yield from compare_union(name, tp, fact, facts)
    elif fact["kind"] == "alias" and seen(tp) != said(facts, name):
        yield f"{name}: type differs: schema {said(facts, name)}, ours {seen(tp)}"


def compare_enum(name: str, tp: Any, fact: Node) -> Iterator[str]:
    args = args_of(tp)
    literals = [arg for arg in args if typing.get_origin(arg) is typing.Literal]
    values = [value for literal in literals for value in typing.get_args(literal)]
    if missing := [value for value in fact["values"] if value not in values]:
        yield f"{name}: missing values {missing}"
    if extra := [value for value in values if value not in fact["values"]]:
        yield f"{name}: extra values {extra}"
    if (len(args) > len(literals)) != fact["open"]:
        yield f"{name}: {'open' if fact['open'] else 'closed'} there, not here"


def compare_union(name: str, tp: Any, fact: Node, facts: Node) -> Iterator[str]:
    if seen(tp) != said(facts, name):
        yield f"{name}: arms differ: schema {said(facts, name)}, ours {seen(tp)}"
    is_shape = isinstance(tp, type) and issubclass(tp, Shape)
    keeps_unknown = dict in tp.arms if is_shape else Raw in args_of(tp)
    all_tagged = all("tag" in arm for arm in fact["arms"])
    if name in CLOSED and keeps_unknown:
        yield f"{name}: an unknown variant would be let in"
    if name not in CLOSED and not keeps_unknown and (fact["open"] or all_tagged):
        yield f"{name}: an unknown variant would be refused"
    if is_shape:
        there = {arm["tag"]: arm["type"] for arm in fact["arms"] if "tag" in arm}
        here = {tag: arm.__name__ for tag, arm in tp._by_tag.items()}
        if here != there or (there and tp._tag != fact["tag"]):
            yield f"{name}: tags differ: schema {fact['tag']} {there}, ours {tp._tag} {here}"


# ── the tests ─────────────────────────────────────────────────────────────────────────────────────

OURS = {name: getattr(schema, name) for name in schema.__all__}


def test_our_types_say_what_the_schema_says() -> None:
    assert differences(load(), OURS) == []


def test_every_word_of_explanation_is_needed() -> None:
    facts = load()
    assert set(NOT_OURS) <= set(facts) and not set(NOT_OURS) & set(OURS)
    assert set(NOT_THEIRS) <= set(OURS) and not set(NOT_THEIRS) & set(facts)
    assert all(tag in [arm.get("tag") for arm in facts[union]["arms"]] for union, tag in ARMS)
    assert all(facts[name]["kind"] == "union" for name in ONE_STRUCT | CLOSED)


def plant(path: str, value: Any) -> list[str]:
    """The differences once a fact at `path` is another; None takes it away."""
    facts = copy.deepcopy(load())
    *parents, last = path.split("/")
    node = facts
    for key in parents:
        node = node[key]
    if value is None:
        del node[last]
    else:
        node[last] = value
    return differences(facts, OURS)


NEW = {"type": "string", "required": False, "nullable": True, "mark": "E"}
ALIAS = {"kind": "alias", "type": "string"}


@pytest.mark.parametrize(
    ("path", "value", "found"),
    [
        ("ToolCall/fields/speed", NEW, "ToolCall.speed: missing field"),
        ("ToolCall/fields/rawOutput", None, "ToolCall.rawOutput: extra field"),
        ("ToolCall/fields/title/required", False, "ToolCall.title: required here, optional there"),
        ("ToolCall/fields/title/nullable", True, "ToolCall.title: null is refused here and not there"),
        ("ToolCall/fields/title/type", "uint32", "ToolCall.title: type differs: schema uint32, ours string"),
        ("ToolCall/meta", False, "ToolCall: extra _meta"),
        ("Diff/fields/oldText/mark", "", "Diff.oldText: mark differs: schema none, ours no mark"),
        (
            "ReadTextFileRequest/fields/line/mark",
            "E",
            "ReadTextFileRequest.line: mark differs: schema E, ours Exact",
        ),
        ("Plan/fields/entries/mark", "N", "Plan.entries: mark differs: schema N, ours Lenient"),
        ("AuthCapabilities/fields/terminal/default", True, "AuthCapabilities.terminal: default differs"),
        ("Notice/fields/title/limits", {"minLength": 2}, "Notice.title: limits differ"),
        ("Role/values", ["assistant"], "Role: extra values ['user']"),
        ("Role/values", ["assistant", "user", "tool"], "Role: missing values ['tool']"),
        ("Role/open", True, "Role: open there, not here"),
        ("NoticeSeverity/open", False, "NoticeSeverity: closed there, not here"),
        (
            "ContentBlock/tag",
            "kind",
            "TextContent: tag differs: schema ('kind', 'text'), ours ('type', 'text')",
        ),
        (
            "ContentBlock/arms",
            [{"tag": "text", "type": "TextContent"}],
            "ContentBlock: arms differ: schema TextContent",
        ),
        ("McpServer/tag", "kind", "McpServer: tags differ: schema kind"),
        ("AuthMethod/open", True, "AuthMethod: an unknown variant would be refused"),
        ("SessionId/type", "uint64", "SessionId: type differs: schema uint64, ours string"),
        ("NesExcerpt/fields/speed", NEW, "NesExcerpt.speed: missing field"),
        ("Hologram", ALIAS, "Hologram: missing type"),
        ("Cost", None, "Cost: extra type"),
    ],
)
def test_the_comparison_notices(path: str, value: Any, found: str) -> None:
    assert [line for line in plant(path, value) if line.startswith(found)]


def test_the_comparison_notices_an_unknown_permission_outcome_let_in() -> None:
    outcome = schema.RequestPermissionOutcome | Raw
    found = differences(load(), {**OURS, "RequestPermissionOutcome": outcome})
    assert found == ["RequestPermissionOutcome: an unknown variant would be let in"]


def sync(source: Path, out: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "scripts" / "sync-schema"), str(source), "--out", str(out)]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.mark.skipif(not SHARED.is_dir(), reason="the official schema is not next to the project")
def test_the_facts_are_those_of_the_official_schema(tmp_path: Path) -> None:
    assert sync(SHARED, tmp_path).returncode == 0
    assert (tmp_path / "v1.json").read_text() == (FACTS / "v1.json").read_text()


def test_a_folder_without_schemas_is_named_in_one_line(tmp_path: Path) -> None:
    done = sync(tmp_path, tmp_path)
    assert done.returncode == 1
    assert done.stderr == f"sync-schema: {tmp_path / 'v1' / 'schema.json'}: No such file or directory\n"

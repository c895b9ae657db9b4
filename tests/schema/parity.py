"""Types against facts, both ways: `Comparison.differences` gives every difference a name.

The facts are what scripts/sync-schema writes down of the official schema; `Excuses` are the places where our
types say the same in another way, each on purpose.
"""

import json
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Raw, Struct, UnsetType

from dragoman import schema
from dragoman.schema import v2
from dragoman.schema.base import Shape

Node = dict[str, Any]

FACTS = Path(__file__).parent / "facts"

INTEGERS = {
    (0, 2**16 - 1): "uint16",
    (1, 2**16 - 1): "uint16",
    (0, 2**32 - 1): "uint32",
    (1, 2**32 - 1): "uint32",
    (0, None): "uint64",
    (-(2**31), 2**31 - 1): "int32",
}
PRIMITIVES = {str: "string", bool: "boolean", float: "double", int: "int64", Any: "any"}
READINGS = {"exact": "Exact", "lenient": "Lenient", "nullable": "Nullable", "sifted": "Sifted", "whole": "Whole"}


@dataclass(frozen=True)
class Excuses:
    not_ours: Mapping[str, str]  # in the schema, and on purpose without a type of that name
    not_theirs: Mapping[str, str]  # exported, and on purpose without a name in the schema
    arms: Mapping[tuple[str, str], str]  # arms of a union whose class has a name of our own
    one_struct: frozenset[str]  # unions there, one struct with all their fields here
    wider: frozenset[str] = field(default_factory=frozenset)  # closed there, open here
    closed: frozenset[str] = field(default_factory=frozenset)  # unions that let no unknown variant in


EVERYWHERE = {
    "ExtRequest": "any JSON",
    "ExtResponse": "any JSON",
    "ExtNotification": "any JSON",
    "ElicitationFormMode": "FormElicitation",
    "ElicitationUrlMode": "UrlElicitation",
    "ElicitationSessionScope": "fields of FormElicitation and UrlElicitation",
    "ElicitationRequestScope": "fields of FormElicitation and UrlElicitation",
    "ErrorStopReason": "a field of IdleStateUpdate",
}
WORDS = {
    "UNSET": "msgspec's word for left out",
    "UnsetType": "its type",
    "Raw": "msgspec's word for JSON kept as it was",
    "JsonObject": "any JSON object",
    "SessionConfigSelectEntry": "an item of SessionConfigSelectOptions",
}
OWN_NAMES = {
    ("SessionUpdate", "user_message_chunk"): "UserMessageChunk",
    ("SessionUpdate", "agent_message_chunk"): "AgentMessageChunk",
    ("SessionUpdate", "agent_thought_chunk"): "AgentThoughtChunk",
    ("SessionUpdate", "tool_call_update"): "ToolCallUpdated",
    ("CreateElicitationRequest", "form"): "FormElicitation",
    ("CreateElicitationRequest", "url"): "UrlElicitation",
    ("CreateElicitationResponse", "decline"): "ElicitationDecline",
    ("CreateElicitationResponse", "cancel"): "ElicitationCancel",
}
FOLDED = frozenset(
    {
        "ElicitationFormMode",
        "ElicitationUrlMode",
        "IdleStateUpdate",
        "MessageMcpResponse",
        "SetSessionConfigOptionRequest",
    }
)
EXCUSES = {
    "v1": Excuses(
        EVERYWHERE,
        {
            **WORDS,
            "AnyMcpRequest": "MessageMcpRequest of either generation",
            "AnyMcpNotification": "MessageMcpNotification of either generation",
        },
        {**OWN_NAMES, ("RequestPermissionOutcome", "cancelled"): "CancelledPermissionOutcome"},
        FOLDED,
        wider=frozenset({"PromptResponse.stopReason"}),  # a reader must survive a new reason
        closed=frozenset({"RequestPermissionOutcome"}),  # an unknown variant could pass for a yes
    ),
    "v2": Excuses(
        {
            **EVERYWHERE,
            "DiffPathChange": "fields of DiffAdd, DiffDelete and DiffModify",
            "DiffPathPairChange": "fields of DiffMove and DiffCopy",
        },
        WORDS,
        {
            **OWN_NAMES,
            ("SessionUpdate", "state_update"): "StateUpdated",
            ("DiffChange", "add"): "DiffAdd",
            ("DiffChange", "delete"): "DiffDelete",
            ("DiffChange", "modify"): "DiffModify",
            ("DiffChange", "move"): "DiffMove",
            ("DiffChange", "copy"): "DiffCopy",
        },
        FOLDED,
        wider=frozenset({"SetSessionConfigOptionRequest.value"}),  # a type to come may take any JSON
    ),
}
OURS = {
    version: {name: getattr(package, name) for name in package.__all__}
    for version, package in (("v1", schema), ("v2", v2))
}


def load(version: str) -> Node:
    """The facts about all types, those of v1 with the frozen ones under the names they have here."""
    found: Node = json.loads((FACTS / f"{version}.json").read_text())["types"]
    if version == "v1":
        frozen = json.loads((FACTS / "frozen.json").read_text())
        for name, fact in frozen["types"].items():
            if name in found and name not in frozen["renamed"]:
                found[name]["fields"].update(fact["fields"])
            else:
                found[frozen["renamed"].get(name, name)] = fact
    return found


# ── what our types say ────────────────────────────────────────────────────────────────────────────


def spell_enum(values: Sequence[object], is_open: bool) -> str:
    return "|".join(sorted(map(str, values))) + ("|..." if is_open else "")


def spell_union(names: typing.Iterable[str]) -> str:
    return " or ".join(sorted(set(names)))


def seen(tp: Any) -> str:
    """A type of ours without null and UNSET, spelled as `Comparison.said` spells those of the facts."""
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


def notes_of(tp: Any) -> tuple[Any, list[msgspec.Meta]]:
    """A type without what is noted on it, and the notes."""
    notes: list[msgspec.Meta] = []
    while typing.get_origin(tp) is typing.Annotated:
        tp, *more = typing.get_args(tp)
        notes += more
    return tp, notes


def seen_field(field: msgspec.structs.FieldInfo) -> Node:
    inner, notes = notes_of(field.type)
    word = next((note.extra["reading"] for note in notes if note.extra), None)
    name = seen(field.type)
    lenient = "ES" if name.endswith("[]") else "E"
    plain = "" if field.required else lenient
    mark = {"exact": "", "lenient": lenient, "nullable": "N", "sifted": "S", "whole": "E", None: plain}[word]
    return {
        "type": name,
        "required": field.required,
        "nullable": inner is Any or type(None) in typing.get_args(inner),
        "mark": mark,
        "word": READINGS.get(word or "", "no mark"),
        "limits": seen_limits(field.type),
        "default": field.default,
    }


def seen_limits(tp: Any) -> Node:
    """The limits of a value or of the arm of a union that has any, without those its size of integer has anyway."""
    inner, notes = notes_of(tp)
    if len(args := args_of(inner)) > 1 or args[0] is not inner:
        return next(filter(None, map(seen_limits, args)), {})
    shortest = "minItems" if typing.get_origin(inner) is Sequence else "minLength"
    found: Node = {}
    for note in notes:
        found |= {shortest: note.min_length} if note.min_length is not None else {}
        found |= {"minimum": note.ge} if note.ge is not None and (inner is float or note.ge == 1) else {}
        found |= {"maximum": note.le} if note.le is not None and inner is float else {}
    return found


def struct_of(tp: Any) -> bool:
    return isinstance(tp, type) and issubclass(tp, Struct)


# ── what the facts say, and the comparison ────────────────────────────────────────────────────────


class Comparison:
    def __init__(self, facts: Node, ours: Mapping[str, Any], excuses: Excuses) -> None:
        self.facts, self.ours, self.excuses = facts, ours, excuses

    def differences(self) -> list[str]:
        """Every way in which our types differ from the facts, in words; none is what we want."""
        classes = self.expected()
        ours = self.ours
        return [
            *self.compare_names(classes),
            *(line for name in sorted(classes) if name in ours for line in self.compare_class(name, classes[name])),
            *(line for name in sorted(self.facts) if name in ours for line in self.compare_other(name)),
        ]

    def said(self, name: str) -> str:
        """A type of the facts, spelled so that `seen` spells the same type of ours alike."""
        if name.endswith("[]"):
            return f"{self.said(name[:-2])}[]"
        if name.startswith("map<"):
            return f"map<{self.said(name[4:-1])}>"
        fact = self.facts.get(name, {"kind": "primitive"})
        if fact["kind"] == "alias":
            return self.said(fact["type"])
        if fact["kind"] == "enum":
            return spell_enum(fact["values"], fact["open"])
        if fact["kind"] == "union" and name not in self.excuses.one_struct:
            arms = [self.arm_class(name, arm) for arm in fact["arms"]]
            if all(arm.endswith("[]") for arm in arms):  # lists of one kind each read as one list of either
                return f"{spell_union(self.said(arm[:-2]) for arm in arms)}[]"
            return spell_union(self.said(arm) for arm in arms if arm != "null")
        return name

    def arm_class(self, union: str, arm: Node) -> str:
        return str(self.excuses.arms.get((union, arm.get("tag", "")), arm.get("type")))

    def takes_null(self, field: Node) -> bool:
        fact = self.facts.get(field["type"], {})
        return bool(
            field["nullable"]
            or fact.get("nullable")
            or any(arm.get("type") == "null" for arm in fact.get("arms", []))
        )

    def expected(self) -> Node:
        """Class name -> whether it has `_meta`, its tag, and for each field what must be true of it."""
        found: Node = {}
        for name, fact in self.facts.items():
            if fact["kind"] == "object":
                found[name] = {"meta": fact["meta"], "tag": None, "fields": self.known(fact["fields"])}
            elif name in self.excuses.one_struct:
                found[name] = self.fold(fact)
        for name, fact in self.facts.items():
            if fact["kind"] == "union" and name not in self.excuses.one_struct:
                found |= self.arms(name, fact, found)
        return {name: fact for name, fact in found.items() if name not in self.excuses.not_ours}

    def arms(self, name: str, fact: Node, found: Node) -> Node:
        """The classes of a union's arms: what is true of each type, with the union's own fields and its tag."""
        classes: Node = {}
        for arm in fact["arms"]:
            inner = found.get(arm.get("type"), {"meta": False, "fields": {}})
            if (name, arm.get("tag")) in self.excuses.arms and self.facts.get(arm.get("type"), {}).get("arms"):
                inner = found.get(arm["type"]) or self.fold(self.facts[arm["type"]])
            elif arm.get("type") and arm["type"] not in found:
                continue  # a string, a list, a number
            classes[self.arm_class(name, arm)] = {
                "meta": fact["meta"] or inner["meta"],
                "tag": (fact["tag"], arm["tag"]) if "tag" in arm else None,
                "fields": {**self.known(fact["fields"]), **inner["fields"]},
            }
        return classes

    def known(self, fields: Node) -> Node:
        return {
            key: {
                "type": self.said(field["type"]),
                "required": field["required"],
                "nullable": self.takes_null(field),
                "mark": field["mark"],
                "limits": field.get("limits", {}),
                **({"default": field["default"]} if "default" in field else {}),
            }
            for key, field in fields.items()
        }

    def fold(self, fact: Node) -> Node:
        """A union read as one struct: what only one arm demands is optional, and lenient, in the whole."""
        fields = self.known(fact["fields"])
        arms = [{**self.fields_of(arm.get("type")), **self.known(arm.get("fields", {}))} for arm in fact["arms"]]
        for key in {key: None for arm in arms for key in arm if key != fact["tag"]}:
            uses = [arm[key] for arm in arms if key in arm]
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
            fields[fact["tag"]] = self.folded_tag(fact, fields)
        meta = fact["meta"] or any(arm.get("meta") for arm in fact["arms"])
        meta = meta or all(self.facts[arm["type"]]["meta"] for arm in fact["arms"] if "type" in arm)
        return {"meta": meta, "tag": None, "fields": fields}

    def folded_tag(self, fact: Node, fields: Node) -> Node:
        tags = spell_enum([arm["tag"] for arm in fact["arms"] if "tag" in arm], True)
        if all("tag" in arm for arm in fact["arms"]) and fact["open"]:
            return {"type": tags, "required": True, "nullable": False, "mark": "", "limits": {}}
        old = fields.get(fact["tag"], {"required": False, "nullable": None, "mark": "E", "limits": {}})
        return {**old, "type": tags}

    def fields_of(self, name: str | None) -> Node:
        if not name:
            return {}
        fact = self.facts[name]
        return dict(self.fold(fact)["fields"] if fact["kind"] == "union" else self.known(fact["fields"]))

    def compare_names(self, classes: Node) -> Iterator[str]:
        wanted = {
            name
            for name in self.facts
            if name not in self.excuses.not_ours and self.facts[name]["kind"] != "envelope"
        }
        for name in sorted((wanted | set(classes)) - set(self.ours)):
            yield f"{name}: missing type"
        for name in sorted(set(self.ours) - wanted - set(classes) - set(self.excuses.not_theirs)):
            yield f"{name}: extra type"

    def compare_class(self, name: str, want: Node) -> Iterator[str]:
        cls = self.ours[name]
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
                yield from self.compare_field(f"{name}.{key}", seen_field(fields[key]), want["fields"][key])

    def compare_field(self, place: str, have: Node, want: Node) -> Iterator[str]:
        if have["required"] != want["required"]:
            here, there = ("required", "optional") if have["required"] else ("optional", "required")
            yield f"{place}: {here} here, {there} there"
        if want["nullable"] is not None and have["nullable"] != want["nullable"] and have["type"] != "any":
            yield f"{place}: null is {'taken' if have['nullable'] else 'refused'} here and not there"
        if have["mark"] != want["mark"] and want["type"] != "any":  # nothing fails to fit any JSON
            yield f"{place}: mark differs: schema {want['mark'] or 'none'}, ours {have['word']}"
        fitting = (want["type"] + "|...", "any") if place in self.excuses.wider else (want["type"],)
        if have["type"] not in fitting:
            yield f"{place}: type differs: schema {want['type']}, ours {have['type']}"
        if have["limits"] != want["limits"]:
            yield f"{place}: limits differ: schema {want['limits']}, ours {have['limits']}"
        if "default" in want and have["default"] not in (want["default"], msgspec.NODEFAULT):
            yield f"{place}: default differs: schema {want['default']!r}, ours {have['default']!r}"

    def compare_other(self, name: str) -> Iterator[str]:
        fact, tp = self.facts[name], self.ours[name]
        if fact["kind"] == "enum":
            yield from self.compare_enum(name, tp, fact)
        elif fact["kind"] == "union" and name not in self.excuses.one_struct:
            yield from self.compare_union(name, tp, fact)
        elif fact["kind"] == "alias" and seen(tp) != self.said(name):
            yield f"{name}: type differs: schema {self.said(name)}, ours {seen(tp)}"

    def compare_enum(self, name: str, tp: Any, fact: Node) -> Iterator[str]:
        args = args_of(tp)
        literals = [arg for arg in args if typing.get_origin(arg) is typing.Literal]
        values = [value for literal in literals for value in typing.get_args(literal)]
        if missing := [value for value in fact["values"] if value not in values]:
            yield f"{name}: missing values {missing}"
        if extra := [value for value in values if value not in fact["values"]]:
            yield f"{name}: extra values {extra}"
        if (len(args) > len(literals)) != fact["open"]:
            yield f"{name}: {'open' if fact['open'] else 'closed'} there, not here"

    def compare_union(self, name: str, tp: Any, fact: Node) -> Iterator[str]:
        if seen(tp) != self.said(name):
            yield f"{name}: arms differ: schema {self.said(name)}, ours {seen(tp)}"
        is_shape = isinstance(tp, type) and issubclass(tp, Shape)
        keeps_unknown = dict in tp.arms if is_shape else Raw in args_of(tp)
        all_tagged = all("tag" in arm for arm in fact["arms"])
        closed = self.excuses.closed
        if name in closed and keeps_unknown:
            yield f"{name}: an unknown variant would be let in"
        if name not in closed and not keeps_unknown and (fact["open"] or all_tagged):
            yield f"{name}: an unknown variant would be refused"
        if is_shape:
            there = {arm["tag"]: arm["type"] for arm in fact["arms"] if "tag" in arm}
            here = {tag: arm.__name__ for tag, arm in tp._by_tag.items()}
            if here != there or (there and tp._tag != fact["tag"]):
                yield f"{name}: tags differ: schema {fact['tag']} {there}, ours {tp._tag} {here}"


def differences(version: str, facts: Node, ours: Mapping[str, Any] | None = None) -> list[str]:
    return Comparison(facts, ours or OURS[version], EXCUSES[version]).differences()

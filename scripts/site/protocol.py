"""The protocol reference: each method and update as roles.py and the schema have it."""

import inspect
import json
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from dragoman import schema
from dragoman.events import Method
from dragoman.roles import AgentRole, ClientRole
from dragoman.schema import v2
from dragoman.schema.base import Shape
from dragoman.signatures import methods

FACTS = Path(__file__).parents[2] / "tests" / "schema" / "facts"
SIDES = {"agent": (AgentRole, "client", "agent"), "client": (ClientRole, "agent", "client")}


def facts(version: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FACTS / f"{version}.json").read_text(encoding="utf-8"))
    return found


V1, V2, FROZEN = facts("v1"), facts("v2"), facts("frozen")


def methods_of(side: str) -> str:
    """A chapter for each method that a side answers."""
    role, sender, receiver = SIDES[side]
    return "\n".join(
        "\n".join(chapter(name, method, inspect.getdoc(getattr(role, name)) or "", sender, receiver))
        for name, method in methods(role).items()
    )


def chapter(name: str, method: Method, told: str, sender: str, receiver: str) -> Iterator[str]:
    kind = "Request" if method.is_request else "Notification"
    suffix = "" if method.name not in ("mcp/message", "proxy/successor") else f" ({kind.lower()})"
    yield f"### `{method.name}`{suffix}\n"
    yield f"{told}\n"
    yield "| | |"
    yield "|---|---|"
    yield f"| Sent by | the {sender}, to the {receiver} |"
    yield f"| Kind | {kind.lower()} |"
    yield f"| Status | {status(method.name)} |"
    yield f"| Version 2 | {'the same name' if method.name in V2['methods'] else IN_V2.get(method.name, 'none')} |"
    if method.capability:
        yield f"| Capability | `{method.capability}` of the {receiver} |"
    yield f"| In Python | `{name}` of `dragoman.{receiver.title()}Role` |"
    yield f"| Params | {linked(method.params)} |"
    if method.is_request:
        yield f"| Result | {linked(method.result)} |"
    yield ""
    yield from fields(method.params)


# What version 2 has in the place of a method that it does not have.
IN_V2 = {
    "authenticate": "`auth/login`",
    "logout": "`auth/logout`",
    "session/load": "`session/resume` with `replayFrom`",
    "session/set_mode": "`session/set_config_option`",
}


def later_methods() -> str:
    """A chapter for each method that version 2 alone has."""
    lines: list[str] = []
    for name, variants in V2["methods"].items():
        if name in V1["methods"] or name in FROZEN["methods"]:
            continue
        for variant in variants:
            params = getattr(v2, variant["params"])
            sender = "client" if variant["side"] == "agent" else "agent"
            lines += [f"### `{name}`\n", f"{inspect.getdoc(params)}\n", "| | |", "|---|---|"]
            lines += [f"| Sent by | the {sender}, to the {variant['side']} |", f"| Kind | {variant['kind']} |"]
            lines += [f"| Status | {'stable' if variant['stable'] else 'unstable'}, in the draft of version 2 |"]
            lines += [f"| Params | {linked(params)} |"]
            if "result" in variant:
                lines += [f"| Result | {linked(getattr(v2, variant['result']))} |"]
            lines += ["", *fields(params)]
    return "\n".join(lines)


def status(name: str) -> str:
    if name in V1["methods"]:
        return "stable" if any(variant["stable"] for variant in V1["methods"][name]) else "unstable"
    return "frozen: it left the schema, and Dragoman still speaks it"


def updates() -> str:
    """A chapter for each update of a session, of version 1 and then of version 2 alone."""
    arms = {arm["tag"]: arm for arm in V1["types"]["SessionUpdate"]["arms"]}
    later = {arm["tag"]: arm for arm in V2["types"]["SessionUpdate"]["arms"]}
    lines: list[str] = []
    for tag, arm in arms.items():
        lines += update(tag, tagged(schema.SessionUpdate, tag), arm["stable"], tag in later)
    lines.append("## Updates of version 2 alone\n")
    for tag, arm in later.items():
        if tag not in arms:
            lines += update(tag, tagged(v2.SessionUpdate, tag), arm["stable"], None)
    return "\n".join(lines)


def update(tag: str, struct: type[msgspec.Struct], is_stable: bool, in_v2: bool | None) -> Iterator[str]:
    yield f"### `{tag}`\n"
    yield f"{inspect.getdoc(struct)}\n"
    yield "| | |"
    yield "|---|---|"
    yield "| Sent by | the agent, in `session/update` |"
    yield f"| Status | {'stable' if is_stable else 'unstable'} |"
    if in_v2 is not None:
        yield f"| Version 2 | {'the same name' if in_v2 else 'none'} |"
    yield f"| In Python | {linked(struct)} |"
    yield ""
    yield from fields(struct)


def tagged(union: Any, tag: str) -> type[msgspec.Struct]:
    arms = (arm for arm in typing.get_args(union) if getattr(arm, "__struct_config__", None))
    return next(arm for arm in arms if arm.__struct_config__.tag == tag)


def fields(struct: Any) -> Iterator[str]:
    """The fields as they are on the wire; a union has its arms' own pages."""
    if not (isinstance(struct, type) and issubclass(struct, msgspec.Struct)):
        return
    found = [field for field in msgspec.structs.fields(struct) if field.encode_name != "_meta"]
    if not found:
        return
    yield "| field | type | |"
    yield "|---|---|---|"
    for field in found:
        yield f"| `{field.encode_name}` | {linked(field.type)} | {'required' if field.required else ''} |"
    yield ""


def linked(kind: Any) -> str:
    """A type in words, linked to the page that has its fields."""
    kind = unmarked(kind)
    if isinstance(kind, type) and issubclass(kind, Shape):
        return " or ".join(linked(arm) for arm in kind.arms)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct) and kind is not msgspec.Raw:
        return f"[`{kind.__name__}`][{kind.__module__}.{kind.__name__}]"
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(dict.fromkeys(linked(arm) for arm in arguments if arm is not msgspec.UnsetType))
    if origin is typing.Literal:
        return ", ".join(f"`{value}`" for value in arguments)
    if origin is not None and arguments:
        return "object" if len(arguments) == 2 else f"list of {linked(arguments[0])}"
    return SIMPLE.get(kind, "any JSON")


SIMPLE = {
    str: "text",
    int: "integer",
    float: "number",
    bool: "true or false",
    dict: "object",
    type(None): "null",
    msgspec.Raw: "an unknown kind, kept as it is",
}


def unmarked(kind: Any) -> Any:
    while typing.get_origin(kind) is typing.Annotated:
        kind = typing.get_args(kind)[0]
    return kind

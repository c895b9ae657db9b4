"""A conversation in the form of Cursor's composer: human bubbles (type 1) and AI bubbles (type 2), in turn.

A turn is one bubble of each kind.  Their ids are made from their positions, so that a bubble has the same id while
it is written and when the conversation is read again.
"""

from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec
from msgspec import Struct

from ... import schema as s
from ...transcript import Message, PlanEntries, ToolCallEntry, Transcript

HUMAN: Literal[1] = 1
AI: Literal[2] = 2


class Bubble(Struct, rename="camel", omit_defaults=True):
    """The messages of one side in one turn."""

    type: Literal[1, 2]
    bubble_id: str
    text: str
    thinking: str = ""
    tool_calls: Sequence[dict[str, object]] = ()
    plan: object = None


def bubble_id(composer: str, turn: int, type: Literal[1, 2]) -> str:
    """The id of a bubble; turns are counted from 1."""
    return f"{composer}:{turn}:{type}"


def bubbles(composer: str, updates: "Iterable[s.SessionUpdate]") -> list[Bubble]:
    """Fold the updates of a session into its bubbles."""
    found: list[Bubble] = []
    for entry in Transcript(updates).entries:
        match entry:
            case Message(speaker="user"):
                turn = len(found) // 2 + 1
                found.append(Bubble(HUMAN, bubble_id(composer, turn, HUMAN), entry.text))
                found.append(Bubble(AI, bubble_id(composer, turn, AI), ""))
            case _ if not found:
                pass  # a message of the agent before the first prompt belongs to no turn
            case Message(speaker="thought"):
                found[-1].thinking += entry.text
            case Message():
                found[-1].text += entry.text
            case ToolCallEntry():
                found[-1].tool_calls = [*found[-1].tool_calls, _shown(entry)]
            case PlanEntries(plan=plan) if plan is not None:
                found[-1].plan = msgspec.to_builtins(plan)
    return found


def _shown(call: ToolCallEntry) -> dict[str, object]:
    """A tool call with all its updates applied, with the protocol's field names."""
    return {
        "toolCallId": call.id,
        "title": call.title,
        "kind": call.kind,
        "status": call.status,
        "content": msgspec.to_builtins(call.content),
        "locations": msgspec.to_builtins(call.locations),
    }

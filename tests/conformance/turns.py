"""Prompts, their content and their cancelling, as both versions require it."""

from typing import Any

from .kit import LINK, TEXT, TURN, Kit, NotShown, requirement
from .services import selected, unanswered

PROMPT, CONTENT, CANCELLATION = "Prompt turn", "Content", "Prompt turn: cancellation"
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


@requirement(TURN, PROMPT, client="any")
async def updates_fit_the_schema(kit: Kit) -> None:
    """Whatever is told about a session is what the schema says."""
    await kit.shown()
    assert kit.updates()


@requirement(TURN, PROMPT, client="any")
async def updates_are_of_sessions_there_are(kit: Kit) -> None:
    """What is told during a turn is of its session, or of another that was announced to the client."""
    shown = await kit.shown()
    children = {u["sessionId"] for u in shown.updates if u["sessionUpdate"] == "subagent_update"}
    told = {m["params"]["sessionId"] for m in shown.messages if m.get("method") == "session/update"}
    assert told <= children | {shown.session}


@requirement(TURN, PROMPT)
async def a_turn_says_something(kit: Kit) -> None:
    """A turn tells at least one message of the agent."""
    spoken = ("agent_message_chunk", "agent_message")
    assert (await kit.shown()).of_kind(*spoken)


@requirement(TURN, PROMPT)
async def turns_follow_each_other(kit: Kit) -> None:
    """A session takes one prompt after another."""
    id = await kit.session()
    for _ in range(2):
        assert await kit.turn(id, [kit.quick]) == "end_turn"


@requirement(TURN, PROMPT)
async def nothing_follows_a_turn(kit: Kit) -> None:
    """Nothing more of a turn is told when it is over."""
    followed = (await kit.shown()).afterwards
    assert [message for message in followed if message.get("method") == "session/update"] == []


@requirement(TURN, CONTENT)
async def links_are_taken(kit: Kit) -> None:
    """A link in a prompt is always taken, with all it can have, too."""
    more = {"title": "A", "description": "b", "mimeType": "text/markdown", "size": 3}
    for link in (LINK, {**LINK, **more}):
        assert await kit.turn(await kit.session(), [kit.quick, link]) == "end_turn"


@requirement(TURN, CONTENT)
async def images_are_taken_as_offered(kit: Kit) -> None:
    """An image in a prompt is taken where that is offered."""
    await _taken(kit, "image", {"type": "image", "data": PIXEL, "mimeType": "image/png"})


@requirement(TURN, CONTENT)
async def sounds_are_taken_as_offered(kit: Kit) -> None:
    """A sound in a prompt is taken where that is offered."""
    await _taken(kit, "audio", {"type": "audio", "data": "UklGRg==", "mimeType": "audio/wav"})


@requirement(TURN, CONTENT)
async def embedded_texts_are_taken_as_offered(kit: Kit) -> None:
    """A file's text in a prompt is taken where embedded context is offered."""
    await _taken(kit, "embeddedContext", {"type": "resource", "resource": {"uri": "file:///a.md", "text": "a"}})


@requirement(TURN, CONTENT)
async def embedded_bytes_are_taken_as_offered(kit: Kit) -> None:
    """A file's bytes in a prompt are taken where embedded context is offered."""
    blob = {"uri": "file:///a.bin", "blob": "AAEC", "mimeType": "application/octet-stream"}
    await _taken(kit, "embeddedContext", {"type": "resource", "resource": blob})


@requirement(TURN, CONTENT)
async def annotations_are_taken(kit: Kit) -> None:
    """Content may say whom it is for, how important it is and how old."""
    notes = {"audience": ["user", "assistant"], "priority": 0.5, "lastModified": "2026-01-01T00:00:00Z"}
    assert await kit.turn(await kit.session(), [{**kit.quick, "annotations": notes}]) == "end_turn"


@requirement(TURN, CONTENT)
async def malformed_content_is_refused(kit: Kit) -> None:
    """Content of a known type that lacks what the type needs is -32602, and the session stays usable."""
    id = await kit.session()
    for block in (
        {"type": "text"},
        {"type": "image", "mimeType": "image/png"},
        {"type": "resource_link", "name": "a"},
        7,
    ):
        await kit.bad("session/prompt", {"sessionId": id, "prompt": [block]}, code=-32602)
    assert await kit.turn(id, [kit.quick]) == "end_turn"


@requirement(TURN, CONTENT)
async def long_and_foreign_texts_are_taken(kit: Kit) -> None:
    """A prompt may be long, in any script, and have what JSON must escape."""
    for text in ("\u0449" * 100_000, '🦜 \u0000 \u2028 "\\ \x1b[0m', "e\u0301\u202e"):
        prompt = [kit.quick, {"type": "text", "text": text}]
        assert await kit.turn(await kit.session(), prompt) in ("end_turn", "refusal")


@requirement(TURN, CANCELLATION)
async def a_cancel_in_silence_does_nothing(kit: Kit) -> None:
    """To cancel a session that does nothing changes nothing: the next turn is whole."""
    id = await kit.session()
    kit.wire.tell("session/cancel", {"sessionId": id})
    await kit.silence()
    assert await kit.turn(id, [kit.quick]) == "end_turn"


@requirement(TURN, "Cancellation")
async def a_cancel_of_an_unknown_request_is_ignored(kit: Kit) -> None:
    """To cancel a request that was never made, or was answered, changes nothing."""
    for id in (10**9, "never", None):
        kit.wire.tell("$/cancel_request", {"requestId": id})
    assert [message for message in await kit.silence() if "method" not in message] == []


@requirement(TURN, CANCELLATION, client="rich")
async def an_open_question_ends_with_its_turn(kit: Kit) -> None:
    """A turn that is cancelled while it asks for permission ends `cancelled`, and the session goes on."""
    (await kit.shown()).asked("session/request_permission")
    kit.services.replies["session/request_permission"] = unanswered
    id = await kit.session()
    asked = kit.prompt(id, [TEXT])
    question = await kit.hear("session/request_permission")
    kit.wire.tell("session/cancel", {"sessionId": id})
    kit.wire.send({"id": question["id"], "result": {"outcome": {"outcome": "cancelled"}}})
    assert await kit.end(asked, id) == "cancelled"
    kit.services.replies.clear()
    assert await kit.turn(id, [kit.quick]) == "end_turn"


@requirement(TURN, "Tool calls: permission", client="rich")
async def a_no_ends_no_turn(kit: Kit) -> None:
    """What is not permitted is not done, and the turn goes on to its end."""
    await _answered(kit, lambda options: selected(_first(options, "reject")))


@requirement(TURN, "Tool calls: permission", client="rich")
async def a_dismissed_question_ends_without_an_error(kit: Kit) -> None:
    """A question that is answered `cancelled` is no approval, and the turn ends with a stop reason."""
    await _answered(kit, lambda options: {"result": {"outcome": {"outcome": "cancelled"}}})


@requirement(TURN, "Tool calls: permission", client="rich")
async def a_broken_answer_is_no_approval(kit: Kit) -> None:
    """A question that is answered with an option nobody offered, or an error, is not approved."""
    await _answered(kit, lambda options: selected("nobody's"))
    await _answered(kit, lambda options: {"error": {"code": -32603, "message": "the window is gone"}})


def _first(options: list[Any], kind: str) -> str:
    return next((o["optionId"] for o in options if o["kind"].startswith(kind)), options[-1]["optionId"])


async def _answered(kit: Kit, answer: Any) -> None:
    (await kit.shown()).asked("session/request_permission")
    kit.services.replies["session/request_permission"] = lambda message: answer(message["params"]["options"])
    id, start = await kit.session(), len(kit.heard)
    asked = kit.prompt(id, [TEXT])
    assert await kit.end(asked, id)
    question = next(m for m in kit.heard[start:] if m.get("method") == "session/request_permission")
    subject = question["params"].get("toolCall") or (question["params"].get("subject") or {}).get("toolCall") or {}
    after = kit.updates(id, kit.heard.index(question))
    assert "completed" not in [
        u.get("status") for u in after if u.get("toolCallId") == subject.get("toolCallId", 0)
    ]


async def _taken(kit: Kit, kind: str, block: Any) -> None:
    if not kit.takes(kind):
        raise NotShown
    assert await kit.turn(await kit.session(), [kit.quick, block]) == "end_turn"

"""Turns of the real program: words, thoughts, tools, plans, usage, and how they end."""

import base64
from pathlib import Path

import pytest

import dragoman.schema as s
from dragoman.bridges.claude import ClaudeAgent
from dragoman.errors import AuthRequired, InternalError
from dragoman.testing import pair

from .anthropic_server import Conversation, cut, status, stopping, text, thinking, tool
from .clients import Bare, turn

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


async def test_words_thoughts_and_usage_arrive_as_they_are_said_and_once(model: Conversation, work: Path) -> None:
    model.say(thinking("Let me ", "see."), text("Hel", "lo."))
    async with pair(ClaudeAgent, Bare()) as client:
        session = await client.new_session(work)
        told = await turn(session, "hello there")
    assert [c.content.text for c in told.of(s.AgentThoughtChunk)] == ["Let me ", "see."]
    assert [c.content.text for c in told.of(s.AgentMessageChunk)] == ["Hel", "lo."]
    assert {c.message_id for c in told.of(s.AgentMessageChunk)} == {told.of(s.AgentThoughtChunk)[0].message_id}
    assert told.response.stop_reason == "end_turn"
    usage = told.response.usage
    assert usage and (usage.input_tokens, usage.output_tokens, usage.total_tokens) == (100, 25, 175)
    assert (usage.cached_read_tokens, usage.cached_write_tokens) == (30, 20)
    last = told.of(s.UsageUpdate)[-1]
    assert (last.used, {update.size for update in told.of(s.UsageUpdate)}) == (175, {1_000_000})
    assert {(update.meta or {})["_claude/model"] for update in told.of(s.UsageUpdate)} == {"claude-opus-5-5"}
    quota = (told.response.meta or {})["quota"]
    assert quota["model_usage"] == [{"model": "claude-opus-5-5", "token_count": quota["token_count"]}]
    assert (quota["token_count"]["totalTokens"], quota["token_count"]["cachedWriteTokens"]) == (175, 20)
    assert last.cost and last.cost.currency == "USD" and last.cost.amount > 0
    assert [u.title for u in told.of(s.SessionInfoUpdate)] == ["hello there"]


async def test_tools_in_parallel_are_told_with_their_input_their_place_and_what_they_gave(
    model: Conversation, work: Path
) -> None:
    file = work / "a.py"
    file.write_text("one\ntwo\nthree\n")
    model.say(text("I look."), tool("Read", "t1", file_path=str(file)), tool("Bash", "t2", command="echo hi"))
    model.say(tool("Edit", "t3", file_path=str(file), old_string="two", new_string="TWO"))
    model.say(
        tool("Write", "t4", file_path=str(work / "b.py"), content="new\n"), tool("Bash", "t5", command="exit 3")
    )
    model.say(text("Done."))
    async with pair(ClaudeAgent, Bare()) as client:
        session = await client.new_session(work)
        told = await turn(session, "go")
    assert told.text == "I look.Done."
    read = told.call("t1")
    assert (read["title"], read["kind"], read["status"]) == ("Read a.py", "read", "completed")
    assert read["locations"] == [{"path": str(file), "line": 1}]
    assert read["content"][0]["content"]["text"] == "```\none\ntwo\nthree\n```"
    assert read["rawInput"] == {"file_path": str(file)}
    assert read["_meta"]["claudeCode"]["toolResponse"]["file"]["totalLines"] == 4
    steps = [update for update in told.updates if getattr(update, "tool_call_id", "") == "t1"]
    assert len(steps) == 3  # it has begun, has its input, has ended
    last = [update for update in told.of(s.ToolCallUpdated) if update.tool_call_id == "t4"][-1]
    assert (last.status, last.content) == ("completed", None)  # the client knows the diff already
    assert told.call("t2")["content"][0]["content"]["text"] == "```console\nhi\n```"
    assert told.call("t2")["kind"] == "execute"
    edit = told.call("t3")
    assert (edit["title"], edit["kind"], edit["status"]) == ("Edit a.py", "edit", "completed")
    assert edit["content"] == [
        {"type": "diff", "path": str(file), "oldText": "one\ntwo\nthree", "newText": "one\nTWO\nthree"}
    ]
    assert edit["locations"] == [{"path": str(file), "line": 1}]
    assert told.call("t4")["content"] == [{"type": "diff", "path": str(work / "b.py"), "newText": "new\n"}]
    failed = told.call("t5")
    assert failed["status"] == "failed" and "Exit code 3" in failed["content"][0]["content"]["text"]
    assert (file.read_text(), (work / "b.py").read_text()) == ("one\nTWO\nthree\n", "new\n")
    first = next(update for update in told.updates if isinstance(update, s.ToolCall))
    assert (first.status, first.raw_input, first.name) == ("pending", {}, "Read")


@pytest.mark.parametrize(("tasks", "variable"), [(False, "0"), (True, "1")])
async def test_the_to_do_list_is_the_plan_and_no_tool_call(
    model: Conversation, work: Path, monkeypatch: pytest.MonkeyPatch, tasks: bool, variable: str
) -> None:
    monkeypatch.setenv("CLAUDE_CODE_ENABLE_TASKS", variable)
    if tasks:
        model.say(tool("TaskCreate", subject="First", description="d", activeForm="Doing the first"))
        model.say(tool("TaskUpdate", taskId="1", status="in_progress"))
        model.say(tool("TaskUpdate", taskId="1", status="completed"))
    else:
        for state in ("pending", "in_progress", "completed"):
            model.say(
                tool("TodoWrite", todos=[{"content": "First", "activeForm": "Doing the first", "status": state}])
            )
    model.say(text("ok"))
    async with pair(ClaudeAgent, Bare()) as client:
        told = await turn(await client.new_session(work), "plan it")
    steps = [[(e.content, e.status, e.priority) for e in plan.entries] for plan in told.of(s.Plan)]
    assert steps == [
        [("First", "pending", "medium")],
        [("Doing the first", "in_progress", "medium")],
        [("First", "completed", "medium")],
    ]
    assert not told.of(s.ToolCall)


async def test_images_files_and_mentions_reach_the_model(model: Conversation, work: Path) -> None:
    document = base64.b64encode(b"plain words").decode()
    prompt = [
        s.TextContent(text="look at"),
        s.ImageContent(data=PIXEL, mime_type="image/png"),
        s.ResourceLink(name="a.py", uri=f"file://{work}/a.py"),
        s.EmbeddedResource(resource=s.TextResourceContents(uri="file:///b.py", text="print(1)")),
        s.EmbeddedResource(
            resource=s.BlobResourceContents(uri="file:///c.txt", blob=document, mime_type="text/plain")
        ),
    ]
    async with pair(ClaudeAgent, Bare()) as client:
        await turn(await client.new_session(work), prompt)
    blocks = [b for m in model.requests[0]["messages"] if m["role"] == "user" for b in m["content"]]
    words = [block.get("text", "") for block in blocks]
    assert {"look at", f"[@a.py](file://{work}/a.py)", "[@b.py](file:///b.py)"} <= set(words)
    assert '\n<context ref="file:///b.py">\nprint(1)\n</context>' in words
    assert any('<context ref="file:///c.txt">\nplain words\n</context>' in block for block in words)
    images = [block["source"] for block in blocks if block["type"] == "image"]
    assert [(image["type"], image["media_type"]) for image in images] == [("base64", "image/png")]


async def test_a_provider_that_is_busy_or_hangs_up_is_asked_again_and_the_user_is_told(
    model: Conversation, work: Path
) -> None:
    class Noticing(Bare):
        session_capabilities = s.ClientSessionCapabilities(notices=s.NoticeCapabilities())

    model.say(status(529, "overloaded_error", "Overloaded", retry_after="0"))
    model.say(status(429, "rate_limit_error", "Too many requests", retry_after="0"))
    model.say(text("Here."))
    model.say(text("par"), cut)
    model.say(text("Whole."))
    async with pair(ClaudeAgent, Noticing()) as client:
        session = await client.new_session(work)
        first, second = await turn(session, "one"), await turn(session, "two")
    assert first.text == "Here."
    notices = first.of(s.Notice)
    assert [n.severity for n in notices] == ["warning", "warning"]
    assert "529" in notices[0].title and "429" in notices[1].title
    assert second.text.endswith("Whole.") and second.response.stop_reason == "end_turn"


async def test_an_error_of_the_provider_is_one_clear_error_and_the_next_prompt_works(
    model: Conversation, work: Path
) -> None:
    for _ in range(12):
        model.say(status(400, "invalid_request_error", "this cannot be"))
    async with pair(ClaudeAgent, Bare()) as client:
        session = await client.new_session(work)
        with pytest.raises(InternalError, match="this cannot be") as caught:
            await turn(session, "one")
        assert caught.value.data == {"errorKind": "unknown", "status": 400}
        model.script.clear()
        model.say(text("Again."))
        assert (await turn(session, "two")).text == "Again."


async def test_without_a_login_the_prompt_is_answered_auth_required(
    model: Conversation, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    async with pair(ClaudeAgent, Bare()) as client:
        session = await client.new_session(work)
        with pytest.raises(AuthRequired, match="login"):
            await turn(session, "hello")
        assert not [u for u in client.updates if isinstance(u.update, s.AgentMessageChunk)]


async def test_an_answer_that_is_cut_off_or_refused_has_its_stop_reason(model: Conversation, work: Path) -> None:
    for _ in range(12):
        model.say(text("long"), stopping("max_tokens"))
    async with pair(ClaudeAgent, Bare()) as client:
        session = await client.new_session(work)
        assert (await turn(session, "one")).response.stop_reason == "max_tokens"
        model.script.clear()
        for _ in range(4):
            model.say(text("No."), stopping("refusal"))
        assert (await turn(session, "two")).response.stop_reason == "refusal"

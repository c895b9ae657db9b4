"""One `session/update` of each kind, shown by Testy and expected by tests."""

from collections.abc import Callable

from msgspec import Struct

from .. import schema as s
from ..agent.turn import AgentSession, shown_options
from ..dialects.engine.shapes import CARRIED
from ..foundation.documents import Document

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
SILENCE = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA="

VERSION_2 = "version 2"
UNHEARD_OF = "unknown"  # of no version; it is only shown when named

Updates = list[s.SessionUpdate]


class Exhibit(Struct, frozen=True):
    """Updates to show, and the capability that they need; `VERSION_2` means that the client speaks version 2."""

    updates: Callable[[AgentSession, str], Updates]
    needs: str = ""

    @property
    def about(self) -> str:
        return self.updates.__doc__ or ""


def text(words: str) -> s.TextContent:
    return s.TextContent(text=words)


def message(session: AgentSession, rest: str) -> Updates:
    """Say something in two chunks of one message."""
    chunks = ["Hello, ", rest or "world."]
    return [s.AgentMessageChunk(content=text(chunk), message_id="message-1") for chunk in chunks]


def thought(session: AgentSession, rest: str) -> Updates:
    """Send a thought."""
    return [s.AgentThoughtChunk(content=text(rest or "Let me see."), message_id="thought-1")]


def user(session: AgentSession, rest: str) -> Updates:
    """Repeat the user's message as a user message."""
    return [s.UserMessageChunk(content=text(rest or "Hello."), message_id="user-1")]


def image(session: AgentSession, rest: str) -> Updates:
    """Show a picture of one pixel."""
    return [s.AgentMessageChunk(content=s.ImageContent(data=PIXEL, mime_type="image/png", uri="file:///pixel.png"))]


def audio(session: AgentSession, rest: str) -> Updates:
    """Play a very short silence."""
    notes = s.Annotations(audience=["user"], priority=0.5)
    block = s.AudioContent(data=SILENCE, mime_type="audio/wav", annotations=notes)
    return [s.AgentMessageChunk(content=block)]


def resource(session: AgentSession, rest: str) -> Updates:
    """Send two embedded resources, one of text and one of bytes."""
    words = s.TextResourceContents(uri="file:///notes.txt", text="Notes.\n", mime_type="text/plain")
    blob = s.BlobResourceContents(uri="file:///pixel.png", blob=PIXEL, mime_type="image/png")
    return [s.AgentMessageChunk(content=s.EmbeddedResource(resource=contents)) for contents in (words, blob)]


def link(session: AgentSession, rest: str) -> Updates:
    """Send a link to a resource."""
    block = s.ResourceLink(
        name="notes", uri="file:///notes.txt", title="Notes", description="Some", mime_type="text/plain", size=7
    )
    return [s.AgentMessageChunk(content=block)]


def whole_message(session: AgentSession, rest: str) -> Updates:
    """Send one whole message, then the same message with more content."""
    said: Document = {"sessionUpdate": "agent_message", "messageId": "whole-1"}
    blocks = [{"type": "text", "text": words} for words in ("Hello.", " And more.")]
    return [_of_version_2({**said, "content": blocks[:count]}) for count in (1, 2)]


def whole_thought(session: AgentSession, rest: str) -> Updates:
    """Send a thought as one whole message."""
    block = {"type": "text", "text": "Let me see."}
    return [_of_version_2({"sessionUpdate": "agent_thought", "messageId": "whole-2", "content": [block]})]


def tool_pieces(session: AgentSession, rest: str) -> Updates:
    """Show a tool whose result arrives in pieces."""
    pieces: list[Document] = [
        {"type": "content", "content": {"type": "text", "text": words}} for words in ("One.", "Two.")
    ]
    said: Document = {"sessionUpdate": "tool_call_content_chunk", "toolCallId": "tool-3"}
    return [
        s.ToolCall(tool_call_id="tool-3", title="Count", kind="other", status="in_progress"),
        *(_of_version_2({**said, "content": piece}) for piece in pieces),
        s.ToolCallUpdated(tool_call_id="tool-3", status="completed"),
    ]


def terminal(session: AgentSession, rest: str) -> Updates:
    """Show a terminal of the agent's own."""
    said: Document = {"sessionUpdate": "terminal_update", "terminalId": "terminal-1"}
    printed = {"sessionUpdate": "terminal_output_chunk", "terminalId": "terminal-1"}
    return [
        _of_version_2({**said, "command": "make", "cwd": session.cwd, "size": {"cols": 80, "rows": 24}}),
        *(_of_version_2({**printed, "data": data}) for data in ("Y2MgYS5jCg==", "w6k=")),
        _of_version_2({**said, "exitStatus": {"exitCode": 0}}),
    ]


def _of_version_2(update: Document) -> s.SessionInfoUpdate:
    """An update of version 2 in an update of version 1 that changes nothing."""
    return s.SessionInfoUpdate(meta={CARRIED: {"v2": {"update": update}}})


def tool(session: AgentSession, rest: str) -> Updates:
    """Show a tool at work from pending to completed, with text, a diff, a terminal and locations."""
    place = s.ToolCallLocation(path=session.path("a.py"), line=3)
    shown: list[s.ToolCallContent] = [
        s.Content(content=text("Editing.")),
        s.Diff(path=session.path("a.py"), old_text="a = 1\n", new_text="a = 2\n"),
        s.Terminal(terminal_id="terminal-1"),
    ]
    return [
        s.ToolCall(
            tool_call_id="tool-1",
            title="Edit a.py",
            name="edit",
            kind="edit",
            locations=[place],
            raw_input={"path": "a.py"},
        ),
        s.ToolCallUpdated(tool_call_id="tool-1", status="in_progress"),
        s.ToolCallUpdated(tool_call_id="tool-1", title="Edit a.py, line 3", content=shown),
        s.ToolCallUpdated(tool_call_id="tool-1", status="completed", raw_output={"changed": 1}),
    ]


def failed_tool(session: AgentSession, rest: str) -> Updates:
    """Show a tool that fails."""
    why: list[s.ToolCallContent] = [s.Content(content=text("No such file."))]
    return [
        s.ToolCall(tool_call_id="tool-2", title="Read b.py", kind="read", status="in_progress"),
        s.ToolCallUpdated(tool_call_id="tool-2", status="failed", content=why, raw_output=None),
    ]


def plan(session: AgentSession, rest: str) -> Updates:
    """Show a plan, then the same plan with progress."""
    return [
        s.Plan(
            entries=[
                s.PlanEntry(content="Look", priority="high", status=first),
                s.PlanEntry(content="Leap", priority="low", status=second),
            ]
        )
        for first, second in STEPS
    ]


STEPS: list[tuple[s.PlanEntryStatus, s.PlanEntryStatus]] = [
    ("in_progress", "pending"),
    ("completed", "in_progress"),
]


def plans(session: AgentSession, rest: str) -> Updates:
    """Show three plans by id: items, a file, markdown."""
    entry = s.PlanEntry(content="Look", priority="medium", status="pending")
    return [
        s.PlanUpdate(plan=s.PlanItems(plan_id="plan-1", entries=[entry])),
        s.PlanUpdate(plan=s.PlanFile(plan_id="plan-2", uri="file:///plan.md")),
        s.PlanUpdate(plan=s.PlanMarkdown(plan_id="plan-3", content="# Plan\n")),
    ]


def plan_removed(session: AgentSession, rest: str) -> Updates:
    """Remove one of the plans."""
    return [s.PlanRemoved(plan_id=rest or "plan-2")]


def commands(session: AgentSession, rest: str) -> Updates:
    """Announce other slash commands."""
    hint = s.UnstructuredCommandInput(hint="what to look for")
    return [
        s.AvailableCommandsUpdate(
            available_commands=[
                s.AvailableCommand(name="search", description="Look for something", input=hint),
                s.AvailableCommand(name="stop", description="Stop looking"),
            ]
        )
    ]


def mode(session: AgentSession, rest: str) -> Updates:
    """Change the mode from the agent's side."""
    session.mode = rest or "plan"
    return [s.CurrentModeUpdate(current_mode_id=session.mode)]


def options(session: AgentSession, rest: str) -> Updates:
    """Send all config options."""
    return [s.ConfigOptionUpdate(config_options=list(shown_options(session.client, session.config_options)))]


def title(session: AgentSession, rest: str) -> Updates:
    """Set the session's title."""
    session.state["title"] = rest or "A talk"
    return [s.SessionInfoUpdate(title=session.state["title"], updated_at="2026-01-01T00:00:00Z")]


def clear_title(session: AgentSession, rest: str) -> Updates:
    """Clear the session's title."""
    session.state["title"] = None
    return [s.SessionInfoUpdate(title=None)]


def usage(session: AgentSession, rest: str) -> Updates:
    """Report the size and use of the context window, and the cost."""
    return [s.UsageUpdate(used=1200, size=200_000, cost=s.Cost(amount=0.25, currency="USD"))]


def notice(session: AgentSession, rest: str) -> Updates:
    """Send a notice."""
    return [s.Notice(severity="warning", title=rest or "Slow today", description="The model takes its time.")]


def compaction(session: AgentSession, rest: str) -> Updates:
    """Show a compaction, with its summary in chunks."""
    return [
        s.CompactionUpdate(compaction_id="compaction-1", status="in_progress"),
        s.CompactionSummaryChunk(compaction_id="compaction-1", content=text("We talked ")),
        s.CompactionSummaryChunk(compaction_id="compaction-1", content=text("a lot.")),
        s.CompactionUpdate(compaction_id="compaction-1", status="completed", summary=[text("We talked a lot.")]),
    ]


def subagent(session: AgentSession, rest: str) -> Updates:
    """Show a subagent, whose work is another session."""
    may_cancel = s.SubagentSessionCapabilities(cancel=s.SessionCancelCapabilities())
    return [
        s.SubagentUpdate(
            session_id="child-1",
            title="Helper",
            description="Looks things up",
            capabilities=may_cancel,
            state=s.RunningStateUpdate(),
            cwd=session.cwd,
        ),
        s.SubagentUpdate(session_id="child-1", state=s.IdleStateUpdate(stop_reason="end_turn")),
    ]


def session_message(session: AgentSession, rest: str) -> Updates:
    """Show a message from one session to another."""
    return [
        s.SessionMessage(
            message_id="note-1", sender_session_id=session.id, recipient_session_id="child-1", content=[text("Go")]
        ),
        s.SessionMessageChunk(message_id="note-1", content=text(" on.")),
    ]


def unknown(session: AgentSession, rest: str) -> Updates:
    """Send an update of a kind that no version of the protocol has."""
    return [s.Raw(b'{"sessionUpdate":"_testy/unheard_of","note":"\\u00e9","nested":{"list":[1,2.50,null]}}')]


EXHIBITS = {
    "message": Exhibit(message),
    "thought": Exhibit(thought),
    "user": Exhibit(user),
    "image": Exhibit(image),
    "audio": Exhibit(audio),
    "resource": Exhibit(resource),
    "link": Exhibit(link),
    "whole_message": Exhibit(whole_message, needs=VERSION_2),
    "whole_thought": Exhibit(whole_thought, needs=VERSION_2),
    "tool_pieces": Exhibit(tool_pieces, needs=VERSION_2),
    "terminal": Exhibit(terminal, needs=VERSION_2),
    "tool": Exhibit(tool),
    "failed_tool": Exhibit(failed_tool),
    "plan": Exhibit(plan),
    "plans": Exhibit(plans, needs="plan"),
    "plan_removed": Exhibit(plan_removed, needs="plan"),
    "commands": Exhibit(commands),
    "mode": Exhibit(mode),
    "options": Exhibit(options),
    "title": Exhibit(title),
    "clear_title": Exhibit(clear_title),
    "usage": Exhibit(usage),
    "notice": Exhibit(notice, needs="session.notices"),
    "compaction": Exhibit(compaction, needs="session.compaction"),
    "subagent": Exhibit(subagent, needs="subagents"),
    "session_message": Exhibit(session_message, needs="subagents"),
    UNHEARD_OF: Exhibit(unknown),
}

"""What an MCP host is told: of updates as progress, of questions as forms, of turns as results."""

from typing import Any

import mcp_types as types

from ... import schema as s
from .driven import DrivenTurn, PutQuestion, calls_of

DETAIL = 4000  # characters of a change that a question shows
DECISION = "decision"


class TurnProgress:
    """Tells a host of each update, as far as it wants to know."""

    def __init__(self, session: Any) -> None:
        self._session, self._count = session, 0

    async def __call__(self, update: s.SessionUpdate) -> None:
        match update:
            case s.AgentMessageChunk(content=s.TextContent(text=text)):
                told = text
            case s.ToolCall(title=title):
                told = title
            case s.ToolCallUpdate(status=status) if status is not None:
                told = f"{update.title or 'tool'}: {status}"
            case s.Plan(entries=entries):
                done = sum(entry.status == "completed" for entry in entries)
                told = f"plan: {done} of {len(entries)} done"
            case _:
                return
        self._count += 1
        await self._session.report_progress(float(self._count), None, told)


def elicits(session: Any) -> bool:
    """Whether the host can put a form to its user."""
    offers = session.client_capabilities
    return offers is not None and offers.elicitation is not None


def form(waiting: PutQuestion) -> types.ElicitRequestFormParams:
    """A question as a form with one choice."""
    question = waiting.question
    parts = [question.title, question.text, *(f"Warning: {warning}" for warning in question.warnings)]
    if question.detail:
        cut = len(question.detail) > DETAIL
        parts.append(question.detail[:DETAIL] + ("\n… (more is not shown)" if cut else ""))
    choice = {
        "type": "string",
        "title": "Decision",
        "enum": [option.id for option in question.options],
        "enumNames": [option.label for option in question.options],
    }
    return types.ElicitRequestFormParams(
        message="\n".join(parts),
        requested_schema={"type": "object", "properties": {DECISION: choice}, "required": [DECISION]},
    )


def chosen(waiting: PutQuestion | None, answer: Any) -> str | None:
    """The option that was chosen; anything but a clear choice allows nothing."""
    if waiting is None or answer is None or answer.action != "accept":
        return None
    option = waiting.question.option((answer.content or {}).get(DECISION))
    return option.id if option else None


def result(turn: DrivenTurn, response: s.PromptResponse) -> types.CallToolResult:
    """A turn that is over: what the agent said, and the changes it showed as links."""
    text = "".join(message.text for message in turn.transcript.messages if message.speaker == "agent")
    shown = {
        content.path
        for call in turn.transcript.tool_calls
        for content in call.content
        if isinstance(content, s.Diff)
    }
    changes = {uri: change for uri, change in turn.conversation.changes.items() if change.path in shown}
    links = [
        types.ResourceLink(type="resource_link", uri=uri, name=change.path, mime_type="text/x-diff")
        for uri, change in changes.items()
    ]
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=text), *links],
        structured_content={
            "sessionId": turn.conversation.session.id,
            "stopReason": response.stop_reason,
            "text": text,
            "toolCalls": calls_of(turn.transcript),
            "resources": list(changes),
        },
        is_error=response.stop_reason == "refusal",
    )

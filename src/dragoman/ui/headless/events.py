"""A turn as JSON, one event per line, for programs."""

from collections.abc import Mapping
from typing import TextIO

import msgspec

from ... import schema as s
from ...client.client import Client
from ...host.audit import Redactor
from ...host.permissions import Question
from .terms import RunOutcome
from .wording import is_worth_a_line

TOLD = ("operation", "path", "creates", "argv", "cwd", "shell", "url", "server", "tool", "arguments", "claims")
ASKED = ("title", "text", "warnings", "detail", "operation", "options")


class Events:
    """Reports all events to a program; `type` is the kind of the event in a line.

    The host's own questions and decisions come without secrets that a command may contain.
    """

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._redactor = Redactor.of_environment()
        self._session_id: str | None = None

    def starting(self, agent: str, seconds: int) -> None:
        if is_worth_a_line(seconds):
            self._tell("starting", agent=agent, seconds=seconds)

    def began(self, agent: str, client: Client, session_id: str, cwd: str) -> None:
        self._session_id = session_id
        self._tell("session", sessionId=session_id, cwd=cwd, agent=client.agent_info)

    def working(self, seconds: int) -> None:
        """Nothing is written: a program has its own clock."""

    def recall(self, update: s.SessionUpdate) -> None:
        """Nothing is written: history is not repeated."""

    def show(self, event: s.SessionUpdate | s.PromptResponse) -> None:
        if not isinstance(event, s.PromptResponse):
            self._tell("update", sessionId=self._session_id, update=event)

    def asked_about(self, request: s.RequestPermissionRequest) -> None:
        """Write the agent's own question, whoever answers it."""
        told = {"toolCall": request.tool_call, "options": request.options}
        self._tell("permission_request", sessionId=request.session_id, **told)

    def asked(self, question: Question) -> None:
        ids = {"sessionId": question.session_id, "toolCallId": question.tool_call_id or None}
        told = {name: getattr(question, name) or None for name in ASKED}
        self._tell("question", **ids, **self._redactor.value(msgspec.to_builtins(told)))

    def decided(self, event: Mapping[str, object]) -> None:
        about = {name: event[name] for name in TOLD if name in event}
        more = {name: event.get(name) for name in ("decision", "why", "scope", "asked")}
        if isinstance(env := event.get("env"), Mapping):
            about["env"] = list(env)  # the values may be secret
        ids = {"sessionId": event.get("session"), "toolCallId": event.get("tool_call")}
        self._tell("decision", **ids, **self._redactor.value({**about, **more}))

    def terminal(self, id: str, command: str) -> None:
        self._tell("terminal", terminalId=id, command=command)

    def output(self, id: str, text: str, stream: str) -> None:
        self._tell("output", terminalId=id, stream=stream, text=text)

    def terminal_ended(self, id: str, how: s.TerminalExitStatus | None) -> None:
        self._tell("terminal_exit", terminalId=id, exitStatus=how)

    def remark(self, words: str) -> None:
        self._tell("remark", text=words)

    def ended(self, outcome: RunOutcome) -> None:
        self._tell(
            "result",
            exitCode=outcome.exit_code,
            stopReason=outcome.stop_reason,
            usage=outcome.usage,
            denied=outcome.denied,
            error=outcome.error,
        )

    def _tell(self, type: str, **fields: object) -> None:
        known = {name: value for name, value in fields.items() if value is not None}
        self._out.write(msgspec.json.encode({"type": type, **known}).decode() + "\n")
        self._out.flush()

"""An agent written with the official SDK, version 2 alone; run by the interpreter that has it."""

import asyncio
import base64
import sys
from typing import Any

from acp.experimental import v2
from acp.experimental.v2 import schema as s

MODES = [{"value": "ask", "name": "Ask"}, {"value": "code", "name": "Code"}]
PATCH = "--- a/home/ada/a.py\n+++ b/home/ada/a.py\n@@ -1,1 +1,1 @@\n-a = 1\n+a = 2\n"


class Scribe(v2.Agent):
    def __init__(self) -> None:
        self.mode = "ask"
        self.work: dict[str, asyncio.Task[None]] = {}
        self.count = self.sessions = 0

    def on_connect(self, connection: v2.AgentSideConnection) -> None:
        self.client = connection

    async def initialize(self, protocol_version: int, info: Any, capabilities: Any = None, **_: Any) -> Any:
        session = {"prompt": {"image": {}}, "mcp": {"stdio": {}}, "delete": {}}
        return s.InitializeResponse.model_validate(
            {
                "protocolVersion": 2,
                "info": {"name": "scribe", "version": "1"},
                "capabilities": {"session": session},
                "authMethods": [{"type": "agent", "methodId": "browser", "name": "Log in"}],
            }
        )

    def options(self) -> list[dict[str, Any]]:
        mode = {"type": "select", "configId": "style", "name": "Style", "category": "mode"}
        return [{**mode, "currentValue": self.mode, "options": MODES}]

    async def login(self, method_id: str, **_: Any) -> Any:
        return s.LoginAuthResponse()

    async def new_session(self, cwd: str, **_: Any) -> Any:
        self.sessions += 1
        opened = {"sessionId": f"sess-{self.sessions}", "configOptions": self.options()}
        return s.NewSessionResponse.model_validate(opened)

    async def resume_session(self, session_id: str, cwd: str, replay_from: Any = None, **_: Any) -> Any:
        if replay_from is not None:
            await self.say(session_id, "user_message", messageId="m0", content=[text("earlier")])
            await self.say(session_id, "agent_message", messageId="m1", content=[text("long ago")])
        await self.say(session_id, "state_update", state="idle")
        return s.ResumeSessionResponse.model_validate({"configOptions": self.options()})

    async def list_sessions(self, **_: Any) -> Any:
        return s.ListSessionsResponse.model_validate({"sessions": [{"sessionId": "sess-1", "cwd": "/home/ada"}]})

    async def close_session(self, session_id: str, **_: Any) -> Any:
        return s.CloseSessionResponse()

    async def set_config_option(self, config_id: str, session_id: str, value: Any, **_: Any) -> Any:
        self.mode = value
        return s.SetSessionConfigOptionResponse.model_validate({"configOptions": self.options()})

    async def cancel_session(self, session_id: str, **_: Any) -> None:
        self.work[session_id].cancel()

    async def prompt(self, session_id: str, prompt: list[Any], **_: Any) -> Any:
        self.count += 1
        id = f"user-{self.count}"
        words = "".join(block.text for block in prompt)
        self.work[session_id] = asyncio.create_task(self.answer(session_id, id, words))
        return s.PromptResponse(message_id=id)

    async def answer(self, session: str, id: str, words: str) -> None:
        await self.say(session, "user_message", messageId=id, content=[text(words)])
        await self.say(session, "state_update", state="running")
        reason: dict[str, Any] = {"stopReason": "end_turn"}
        try:
            await getattr(self, words)(session)
        except asyncio.CancelledError:
            reason = {"stopReason": "cancelled"}
        except AttributeError:
            reason = {"stopReason": "refusal"}
        await self.say(session, "state_update", state="idle", **reason)

    async def talk(self, session: str) -> None:
        await self.say(session, "agent_thought_chunk", messageId="t", content=text("Hm."))
        for word in ("Good ", "day"):
            await self.say(session, "agent_message_chunk", messageId="a", content=text(word))
        await self.say(session, "agent_message", messageId="a", content=[text("Good day")])
        await self.say(session, "agent_message", messageId="b", content=[text("One"), text(" more")])

    async def edit(self, session: str) -> None:
        change = {"operation": "modify", "path": "/home/ada/a.py"}
        diff = {"type": "diff", "changes": [change], "patch": {"format": "git_patch", "text": PATCH}}
        await self.say(session, "tool_call_update", toolCallId="c", title="Edit", kind="edit", status="in_progress")
        await self.say(session, "tool_call_content_chunk", toolCallId="c", content=diff)
        words = {"type": "content", "content": text("done")}
        await self.say(session, "tool_call_content_chunk", toolCallId="c", content=words)
        await self.say(session, "tool_call_update", toolCallId="c", status="completed")

    async def run(self, session: str) -> None:
        await self.say(session, "terminal_update", terminalId="x", command="make", cwd="/home/ada")
        shown = [{"type": "terminal", "terminalId": "x"}]
        await self.say(session, "tool_call_update", toolCallId="r", title="make", kind="execute", content=shown)
        for line in (b"one\n", b"two\n"):
            data = base64.b64encode(line).decode()
            await self.say(session, "terminal_output_chunk", terminalId="x", data=data)
        await self.say(session, "terminal_update", terminalId="x", exitStatus={"exitCode": 0})
        await self.say(session, "tool_call_update", toolCallId="r", status="cancelled")

    async def ask(self, session: str) -> None:
        answer = await self.client.request_permission(
            session_id=session,
            title="Run make?",
            options=[s.PermissionOption(option_id="y", name="Yes", kind="allow_once")],
            subject=s.CommandPermissionSubjectVariant(command="make", cwd="/home/ada"),
        )
        outcome = answer.outcome.outcome
        await self.say(session, "agent_message_chunk", messageId=f"o{self.count}", content=text(outcome))

    async def plan(self, session: str) -> None:
        entries = [{"content": "Look", "priority": "high", "status": "cancelled"}]
        await self.say(session, "plan_update", plan={"type": "items", "planId": "p", "entries": entries})

    async def wait(self, session: str) -> None:
        await self.say(session, "agent_message_chunk", messageId="w", content=text("waiting"))
        await asyncio.Event().wait()

    async def say(self, session: str, kind: str, /, **fields: Any) -> None:
        wire = {"sessionId": session, "update": {"sessionUpdate": kind, **fields}}
        await self.client.session_update(session, s.UpdateSessionNotification.model_validate(wire).update)


def text(words: str) -> dict[str, str]:
    return {"type": "text", "text": words}


if __name__ == "__main__":
    asyncio.run(v2.run_agent(Scribe()))
    sys.exit(0)

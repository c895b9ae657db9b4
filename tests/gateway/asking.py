"""An agent that asks about a call, and then does things through whoever lends them; both as its prompt says."""

import json
from typing import Any

from dragoman import Agent, serve
from dragoman import schema as s
from dragoman.errors import RpcError

OPTIONS = [
    s.PermissionOption(option_id="yes", name="Allow", kind="allow_once"),
    s.PermissionOption(option_id="no", name="Reject", kind="reject_once"),
]


class Asking(Agent):
    async def answer(self, turn: Any) -> None:
        told = json.loads(turn.text)
        for update in told.get("tell", ()):
            await turn.update(s.ToolCall(tool_call_id="call", **_read(update)))
        if "ask" in told:
            asked = s.ToolCallUpdate(tool_call_id="call", **_read(told["ask"]))
            request = s.RequestPermissionRequest(session_id=turn.session.id, tool_call=asked, options=OPTIONS)
            answered = await turn.client.request_permission(request)
            await turn.say(answered.outcome.option_id + ".")
        for verb, *arguments in told.get("do", ()):
            try:
                if verb == "write":
                    await turn.write(*arguments)
                else:
                    async with turn.terminal(*arguments) as terminal:
                        await terminal.wait()
                await turn.say("done.")
            except RpcError:
                await turn.say("refused.")


def _read(told: dict[str, Any]) -> dict[str, Any]:
    change = told.pop("diff", None)
    content = [s.Diff(path=change[0], old_text=change[1], new_text=change[2])] if change else None
    return {"title": "A call", **({"content": content} if content else {}), **told}


if __name__ == "__main__":
    serve(Asking)

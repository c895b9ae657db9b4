"""A client written with the official SDK, version 2: drives an agent and prints what it saw as one JSON line."""

import asyncio
import json
import sys
from typing import Any

from acp.experimental import v2
from acp.experimental.v2 import schema as s


class Watcher(v2.Client):
    def __init__(self) -> None:
        self.updates: list[dict[str, Any]] = []
        self.questions: list[str] = []
        self.idle = asyncio.Event()

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        seen = update.model_dump(mode="json", by_alias=True, exclude_none=True)
        self.updates.append(seen)
        if seen["sessionUpdate"] == "state_update" and seen["state"] == "idle":
            self.idle.set()

    async def request_permission(self, title: str, options: list[Any], **_: Any) -> Any:
        self.questions.append(title)
        chosen = next(option for option in options if option.kind == "allow_once")
        outcome = {"outcome": "selected", "optionId": chosen.option_id}
        return s.RequestPermissionResponse.model_validate({"outcome": outcome})

    async def play(self, agent: v2.ClientSideConnection, session: str, words: str) -> tuple[str, list[Any]]:
        self.updates, self.idle = [], asyncio.Event()
        block = s.TextContentBlock(text=words)
        response = await agent.prompt(session_id=session, prompt=[block])
        await self.idle.wait()
        return response.message_id, self.updates


async def main(command: list[str]) -> None:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe)
    watcher = Watcher()
    agent = v2.connect_to_agent(watcher, process.stdin, process.stdout)
    seen: dict[str, Any] = {}
    hello = await agent.initialize(
        protocol_version=2, info=s.Implementation(name="watcher", version="1"), capabilities=s.ClientCapabilities()
    )
    seen["version"], seen["info"] = hello.protocol_version, hello.info.name
    opened = await agent.new_session(cwd="/")
    seen["options"] = [option.config_id for option in opened.config_options or []]
    session = opened.session_id
    for words in ("echo hello", "tool", "ask", "plan", "refuse", "fail"):
        seen[words] = await watcher.play(agent, session, words)
    mode = seen["options"][0]
    changed = await agent.set_config_option(config_id=mode, session_id=session, value="plan", type="id")
    seen["set"] = next(option.current_value for option in changed.config_options)
    watcher.updates, watcher.idle = [], asyncio.Event()
    await agent.prompt(session_id=session, prompt=[s.TextContentBlock(text="wait")])
    await agent.cancel_session(session_id=session)
    await watcher.idle.wait()
    seen["cancelled"] = watcher.updates[-1]
    listed = await agent.list_sessions()
    seen["listed"] = [found.session_id == session for found in listed.sessions if found.session_id == session]
    watcher.updates = []
    await agent.resume_session(session_id=session, cwd="/", replay_from=s.ReplayFromStartVariant())
    seen["replayed"] = watcher.updates
    await agent.close_session(session_id=session)
    seen["questions"] = watcher.questions
    await agent.close()
    process.stdin.close()
    await process.wait()
    print(json.dumps(seen))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))

"""An agent written with the official SDK that works like a coding agent.

It thinks, plans, reads a file, asks whether it may change it with the change in hand, writes it, runs a command,
and says in chunks what came of it.
"""

import asyncio
from uuid import uuid4

from acp import (
    PROTOCOL_VERSION,
    Agent,
    InitializeResponse,
    NewSessionResponse,
    PromptResponse,
    plan_entry,
    run_agent,
    start_edit_tool_call,
    start_tool_call,
    tool_diff_content,
    tool_terminal_ref,
    update_agent_message_text,
    update_agent_thought_text,
    update_plan,
    update_tool_call,
)
from acp.schema import PermissionOption, ToolCallUpdate

OPTIONS = [
    PermissionOption(option_id="yes", name="Allow", kind="allow_once"),
    PermissionOption(option_id="always", name="Always allow", kind="allow_always"),
    PermissionOption(option_id="no", name="Reject", kind="reject_once"),
]
STEPS = ("Read greeting.txt", "Change it", "Look at the result")


class Editor(Agent):
    def on_connect(self, conn):
        self.client = conn

    async def initialize(self, protocol_version, **kwargs):
        return InitializeResponse(protocol_version=PROTOCOL_VERSION)

    async def new_session(self, cwd, mcp_servers=None, **kwargs):
        self.path = f"{cwd}/greeting.txt"
        return NewSessionResponse(session_id=uuid4().hex)

    async def prompt(self, prompt, session_id, **kwargs):
        await self.tell(session_id, update_agent_thought_text("A greeting is called for."))
        await self.plan(session_id, 0)
        old = (await self.client.read_text_file(session_id=session_id, path=self.path)).content
        await self.plan(session_id, 1)
        if not await self.change(session_id, old, prompt[0].text + "\n"):
            await self.tell(session_id, update_agent_message_text("Then I leave it."))
            return PromptResponse(stop_reason="end_turn")
        await self.plan(session_id, 2)
        output = await self.look(session_id)
        for word in ("It ", "says ", f"now: {output}"):
            await self.tell(session_id, update_agent_message_text(word))
        return PromptResponse(stop_reason="end_turn")

    async def change(self, session_id, old, new):
        await self.tell(session_id, start_edit_tool_call("edit", "Edit greeting.txt", self.path, None))
        question = ToolCallUpdate(
            tool_call_id="edit", title="Edit greeting.txt", content=[tool_diff_content(self.path, new, old)]
        )
        response = await self.client.request_permission(session_id=session_id, tool_call=question, options=OPTIONS)
        if response.outcome.outcome != "selected" or response.outcome.option_id == "no":
            await self.tell(session_id, update_tool_call("edit", status="failed"))
            return False
        await self.tell(session_id, update_tool_call("edit", status="in_progress"))
        await self.client.write_text_file(session_id=session_id, path=self.path, content=new)
        await self.tell(session_id, update_tool_call("edit", status="completed"))
        return True

    async def look(self, session_id):
        await self.tell(session_id, start_tool_call("look", "Look at it", kind="execute"))
        terminal = await self.client.create_terminal(session_id=session_id, command="cat", args=[self.path])
        ids = {"session_id": session_id, "terminal_id": terminal.terminal_id}
        content = [tool_terminal_ref(terminal.terminal_id)]
        await self.tell(session_id, update_tool_call("look", status="in_progress", content=content))
        await self.client.wait_for_terminal_exit(**ids)
        output = (await self.client.terminal_output(**ids)).output
        await self.client.release_terminal(**ids)
        await self.tell(session_id, update_tool_call("look", status="completed"))
        return output

    async def plan(self, session_id, done):
        states = ["completed"] * done + ["in_progress"] + ["pending"] * (len(STEPS) - done - 1)
        entries = [plan_entry(step, status=status) for step, status in zip(STEPS, states, strict=True)]
        await self.tell(session_id, update_plan(entries))

    async def tell(self, session_id, update):
        await self.client.session_update(session_id, update)


asyncio.run(run_agent(Editor()))

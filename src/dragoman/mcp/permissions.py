"""Whether an agent may call a tool of a server: the user's rules decide, otherwise the user is asked."""

import asyncio
import json
import os
import time
from collections.abc import Awaitable, Callable, Mapping

from .. import schema as s
from ..agent.runs import ToolRun
from ..agent.turn import Turn
from ..host.display import COMMAND_LIMIT, is_elided, visible
from ..host.operations import McpTool
from ..host.permissions import scrutiny
from ..host.permissions.rules.matching import Circumstances
from ..host.permissions.rules.rules import Rules, RulesError, user_file, workspace_file
from .connections import McpFailure
from .listings import ToolInfo

MAX_NAMED = 200  # characters of a name in an option

CallCheck = Callable[[Turn, ToolRun, ToolInfo, Mapping[str, object]], Awaitable[None]]  # raises McpFailure


class ToolPermissions:
    """Asks once per call, unless a rule decides or the user allowed the tool for the session."""

    def __init__(self) -> None:
        self._allowed: set[tuple[str, str]] = set()

    async def admit(self, turn: Turn, call: ToolRun, tool: ToolInfo, arguments: Mapping[str, object]) -> None:
        """Return if the tool may be called with these arguments; raises McpFailure if it may not."""
        operation = McpTool(server=tool.server, tool=tool.name, arguments=dict(arguments))
        if why := scrutiny.impossible(operation):
            raise McpFailure(f"this cannot be called: {why}")
        effect, why = await asyncio.to_thread(self._judged, turn.session.cwd, operation)
        if effect == "deny":
            raise McpFailure(f"a rule of the user forbids {operation.subject}{f': {why}' if why else ''}")
        if effect == "allow" or (effect is None and (tool.server, tool.name) in self._allowed):
            return
        details = visible(
            json.dumps(dict(arguments), indent=2, ensure_ascii=False), limit=COMMAND_LIMIT, lines=True
        )
        if is_elided(details):
            raise McpFailure(f"the arguments of {operation.subject} are too long to be judged")
        await self._ask(turn, call, tool, is_rule=effect == "ask")

    def _judged(self, cwd: str, operation: McpTool) -> tuple[str | None, str]:
        try:
            rules = Rules.load(user_file(), workspace_file(cwd))
        except RulesError as exc:
            raise McpFailure(str(exc)) from exc
        place = Circumstances(workspace=os.path.realpath(cwd), now=time.time())
        verdict = scrutiny.judged(rules, [operation], place, [], [])
        return (verdict.effect, verdict.why or "") if verdict else (None, "")

    async def _ask(self, turn: Turn, call: ToolRun, tool: ToolInfo, *, is_rule: bool) -> None:
        words = f"{visible(tool.name, limit=MAX_NAMED)} of {visible(tool.server, limit=MAX_NAMED)}"
        options = [s.PermissionOption(option_id="allow", name="Allow once", kind="allow_once")]
        if not is_rule:
            name = f"Allow {words} for this session"
            options.append(s.PermissionOption(option_id="allow_session", name=name, kind="allow_always"))
        options.append(s.PermissionOption(option_id="reject", name="Reject", kind="reject_once"))
        permission = await turn.ask(call, options)
        if not permission:
            raise McpFailure(f"the user did not allow {words}")
        if permission.option and permission.option.option_id == "allow_session":
            self._allowed.add((tool.server, tool.name))

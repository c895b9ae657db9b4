"""Whether a tool may run through the client: the settings' rules decide, then the mode, then the user."""

import os
from collections.abc import Mapping
from typing import Literal

from ....errors import Error
from ....foundation.documents import Json
from ....host.permissions.rules.matching import is_in
from ..conversation import ClaudeConversation
from ..program.launch import config_directory
from ..questions import ALWAYS, NO, ONCE, REFUSED, ClaudeQuestions, option
from ..tools.shown import ACP, absolute, words
from .rules import SettingsRule, matching, read_rules

Verdict = Literal["allow", "ask", "deny"]
CHANGES = ("Edit", "Write")
HARMLESS = ("BashOutput", "KillShell")  # tools for commands that were permitted when they were started


class NotPermitted(Error):
    """A tool call is not permitted."""


class LentPermissions:
    """Decides on each call, and remembers what the user allowed for the session."""

    def __init__(self, conversation: ClaudeConversation, questions: ClaudeQuestions) -> None:
        self._conversation, self._questions = conversation, questions
        self._allowed: list[SettingsRule] = []

    async def admit(self, id: str, tool: str, given: Mapping[str, Json]) -> None:
        """Return once a call may be made; raises NotPermitted if it may not."""
        if tool in HARMLESS:
            return
        state = (await self._conversation.request("list_permission_rules")).get("state")
        rules = [*read_rules(state if isinstance(state, dict) else {}), *self._allowed]
        verdict = self.verdict(rules, tool, given)
        if verdict == "deny":
            raise NotPermitted(self._why_not(tool))
        if verdict == "ask":
            await self._ask(id, tool, given)

    def verdict(self, rules: list[SettingsRule], tool: str, given: Mapping[str, Json]) -> Verdict:
        """The decision of rules and mode about a call."""
        cwd, mode = self._conversation.session.cwd, self._conversation.choices.mode

        def says(behaviour: str) -> bool:
            return matching(rules, behaviour, tool, given, cwd)

        if says("deny"):
            return "deny"
        if says("ask"):
            return "deny" if mode == "dontAsk" else "ask"
        if mode == "bypassPermissions" or says("allow") or self._is_free(tool, given, mode):
            return "allow"
        if mode == "dontAsk" or (mode == "plan" and tool in CHANGES):
            return "deny"
        return "ask"

    def _is_free(self, tool: str, given: Mapping[str, Json], mode: str) -> bool:
        """Whether the mode permits a tool: reading in the session's directories, and editing in an editing mode."""
        if tool not in ("Read", *CHANGES):
            return False
        path = absolute(words(given, "file_path"), self._conversation.session.cwd)
        if is_plan(path):
            return True
        inside = any(
            is_in(path, root) for root in (self._conversation.session.cwd, *self._conversation.launch.directories)
        )
        guarded = {".git", ".claude", ".vscode", ".idea"} & set(path.split("/"))
        return inside and (tool == "Read" or (mode == "acceptEdits" and not guarded))

    async def _ask(self, id: str, tool: str, given: Mapping[str, Json]) -> None:
        label, remembered = self._always(tool, given)
        options = [option(ONCE, "Yes"), option(ALWAYS, label), option(NO, "No")]
        chosen = await self._questions.ask(id, f"{ACP}{tool}", given, options, {})
        if chosen == ALWAYS and remembered:
            self._allowed.append(remembered)
        elif chosen == ALWAYS:
            await self._conversation.request("set_permission_mode", mode="acceptEdits")
        elif chosen != ONCE:
            raise NotPermitted(REFUSED if chosen else "The user cancelled the turn.")

    def _always(self, tool: str, given: Mapping[str, Json]) -> tuple[str, SettingsRule | None]:
        """The meaning of "always" for a call, and the rule for it; for edits it is a mode."""
        if tool == "Bash":
            command = words(given, "command")
            return f"Yes, and don't ask again for `{command}` in this session", SettingsRule(
                "allow", "Bash", command
            )
        if tool in CHANGES:
            return "Yes, and allow all edits during this session", None
        directory = os.path.dirname(absolute(words(given, "file_path"), self._conversation.session.cwd))
        return f"Yes, and allow reading from {directory} during this session", SettingsRule(
            "allow", "Read", f"/{directory}/**"
        )

    def _why_not(self, tool: str) -> str:
        mode = self._conversation.choices.mode
        if mode == "plan" and tool in CHANGES:
            return "Nothing may be changed in plan mode until the plan is approved."
        return f"Permission to use {tool} has been denied by the settings or the mode ({mode})."


def is_plan(path: str) -> bool:
    """Whether a file is one of Claude's own plans, which it may always write."""
    return is_in(os.path.realpath(path), os.path.realpath(config_directory() / "plans"))

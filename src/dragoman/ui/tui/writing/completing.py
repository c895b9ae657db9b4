"""Completions while the user types: the agent's commands after `/`, files after `@`."""

import asyncio
import os
import re
from collections.abc import Sequence
from pathlib import Path

from textual import on
from textual.content import Content
from textual.widgets import OptionList
from textual.widgets.option_list import Option as Line

from .... import schema as s
from ....errors import Error
from ...driving.driver import ConversationDriver
from ...headless.attachments import attached
from ..words import line
from .composer import PromptEditor
from .files import FileIndex, is_there
from .matching import matching

_AT = re.compile(r"(?:^|(?<=[\s(\[]))@([^\s@]*)$")
_SLASH = re.compile(r"/([^\s/]*)")
_NAMED = re.compile(r"(?:^|(?<=[\s(\[]))@([^\s@]+)")
MOST_FILES = 20  # files named in a prompt that are attached to it


class Completions(OptionList, can_focus=False):
    """A list above the input; the input keeps the focus."""

    DEFAULT_CSS = """
    Completions { height: auto; max-height: 9; border: none; padding: 0 1; background: $raised; display: none; }
    Completions.open { display: block; }
    """

    def __init__(self, driver: ConversationDriver, composer: PromptEditor) -> None:
        super().__init__()
        self._driver, self._composer = driver, composer
        self._files = FileIndex(driver.options.cwd)
        self._wanted: tuple[str, str] | None = None  # the sign, `/` or `@`, and the text after it
        self._dismissed: tuple[str, str] | None = None

    def on_unmount(self) -> None:
        self._files.close()

    def close(self) -> None:
        """Close the list."""
        self._wanted = None
        self._composer.is_completing = False
        self.remove_class("open")

    def refresh_commands(self) -> None:
        """Update the list after the agent changed its commands."""
        if self._wanted and self._wanted[0] == "/":
            self._offer_commands(self._wanted[1])

    async def update_for(self, before: str) -> None:
        """Offer the completions of the word before the cursor."""
        wanted = _wanted_in(before)
        if wanted is None or wanted == self._dismissed:
            self.close()
            return
        self._dismissed = None
        self._wanted = wanted
        if wanted[0] == "/":
            self._offer_commands(wanted[1])
            return
        await asyncio.sleep(0.03)  # the user may still be typing
        if self._wanted != wanted:
            return
        found = await self._files.find(wanted[1])
        if self._wanted == wanted:
            self._show([Line(line(path, 100), id=path) for path in found])

    def _offer_commands(self, wanted: str) -> None:
        commands = matching(wanted, self._driver.model.transcript.commands, lambda command: command.name)
        rows = []
        for command in commands[:50]:
            hint = command.input.hint if command.input else ""
            words = Content.assemble(line(f"/{command.name}", 60, "bold"), " ", line(hint, 30, "$moving"), "  ")
            rows.append(Line(Content.assemble(words, line(command.description, 70, "$quiet")), id=command.name))
        self._show(rows)

    def _show(self, rows: Sequence[Line]) -> None:
        if not rows:
            self.close()
            return
        self.set_options({row.id: row for row in rows}.values())
        self.highlighted = 0
        self._composer.is_completing = True
        self.add_class("open")

    def chosen(self, key: str) -> None:
        """Carry out the action of a key of the list."""
        match key:
            case "up":
                self.action_cursor_up()
            case "down":
                self.action_cursor_down()
            case "close":
                self._dismissed = self._wanted
                self.close()
            case "enter" if self._is_written():
                self.close()
                self._composer.action_send()
            case "accept" | "enter":
                self._accept()

    @on(OptionList.OptionSelected)
    def _clicked(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self._accept()
        self._composer.focus()

    def _accept(self) -> None:
        option, wanted = self.highlighted_option, self._wanted
        self.close()
        if option is not None and option.id is not None and wanted is not None:
            sign, typed = wanted
            self._composer.replace_before(len(typed) + 1, f"{sign}{option.id} ")

    def _is_written(self) -> bool:
        """Whether the highlighted word is already typed in full."""
        option = self.highlighted_option
        return option is not None and self._wanted is not None and option.id == self._wanted[1]

    def blocks_of(self, text: str) -> list[s.ContentBlock]:
        """A prompt as blocks: its text, and each file that it names, if the agent accepts the file."""
        cwd = self._driver.options.cwd
        names = [name.rstrip(".,;:!?)") for name in _NAMED.findall(text)]
        named = [Path(os.path.join(cwd, name)) for name in dict.fromkeys(names) if is_there(cwd, name)]
        blocks: list[s.ContentBlock] = [s.TextContent(text=text)] if text.strip() else []
        takes = self._driver.host.agent_capabilities.prompt_capabilities
        for path in named[:MOST_FILES]:
            try:
                blocks += attached([path], takes)
            except Error as exc:
                self._driver.notice(str(exc), "warning")
        return blocks


def _wanted_in(before: str) -> tuple[str, str] | None:
    """The word to complete before the cursor: a command at the very start, or a file; None for any other word."""
    if (slash := _SLASH.fullmatch(before)) is not None:
        return "/", slash[1]
    if (at := _AT.search(before.rpartition("\n")[2])) is not None:
        return "@", at[1]
    return None

"""The prompt editor: several lines, a history, completion of commands and files."""

import os
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar
from urllib.parse import unquote

from textual import events
from textual.message import Message
from textual.widgets import TextArea

from ...output import defused
from .history import PromptHistory

MAX_DRAGGED = 20  # files at once
MAX_LINES = 10  # visible lines of the editor


def dragged(text: str) -> list[Path]:
    """The files whose paths the terminal types when the user drags files in; empty for any other text."""
    try:
        words = shlex.split(text.strip())
    except ValueError:
        return []
    places = [unquote(word.removeprefix("file://")) if word.startswith("file://") else word for word in words]
    if len(places) > MAX_DRAGGED or not all(place.startswith("/") and os.path.isfile(place) for place in places):
        return []
    return [Path(place) for place in places]


class PromptEditor(TextArea):
    """The editor of prompts; it posts a message for each action that the user wants."""

    DEFAULT_CSS = f"""
    PromptEditor {{ height: auto; max-height: {MAX_LINES + 2}; min-height: 1; min-width: 4; width: 1fr;
        border: none; padding: 0 1; background: $ground; color: $words; }}
    PromptEditor:focus {{ border: none; }}
    """
    # `_on_key` handles these keys: as bindings, they would overtake letters that were typed before.
    KEYS: ClassVar[dict[str, str]] = {
        "enter": "send",
        "alt+enter": "steer",
        "shift+enter": "break_line",
        "ctrl+j": "break_line",
        "ctrl+g": "open_editor",
        "ctrl+r": "search_history",
        "tab": "nothing",
    }

    class Given(Message):
        """The user sends a prompt."""

        def __init__(self, text: str, is_steering: bool) -> None:
            super().__init__()
            self.text, self.is_steering = text, is_steering

    class Moved(Message):
        """The text before the cursor changed."""

        def __init__(self, before: str) -> None:
            super().__init__()
            self.before = before

    class CompletionKey(Message):
        """A key for the list of completions: `up`, `down`, `accept`, `enter` or `close`."""

        def __init__(self, key: str) -> None:
            super().__init__()
            self.key = key

    class Pasted(Message):
        """The user pasted a text that is too long for the input."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    class EditorWanted(Message):
        """The user wants to write in an external editor."""

    class Dropped(Message):
        """The user dragged files in."""

        def __init__(self, paths: Sequence[Path]) -> None:
            super().__init__()
            self.paths = paths

    class HelpWanted(Message):
        """The user wants to see every key."""

    class HistoryWanted(Message):
        """The user searches for an earlier prompt."""

    LONG = 1000  # characters of a paste; a longer one is attached, as is one with more lines
    LONG_LINES = 12

    def __init__(self, history: PromptHistory) -> None:
        super().__init__(
            soft_wrap=True, highlight_cursor_line=False, placeholder="Ask, or type / for commands, @ for files"
        )
        self._history = history
        self._at: int | None = None  # the index of the earlier prompt that is shown
        self._draft = ""
        self.is_completing = False

    @property
    def before(self) -> str:
        """The text before the cursor, including the lines above."""
        row, column = self.cursor_location
        return "\n".join([*self.text.split("\n")[:row], self.get_line(row).plain[:column]])

    def on_text_area_changed(self) -> None:
        self.post_message(self.Moved(self.before))

    def replace_before(self, count: int, text: str) -> None:
        """Replace `count` characters before the cursor."""
        row, column = self.cursor_location
        self.replace(text, (row, column - count), (row, column))

    def write(self, text: str) -> None:
        """Replace the whole text, and put the cursor at its end."""
        self.load_text(defused(text))
        self.move_cursor(self.document.end)

    def action_send(self) -> None:
        """Send the prompt; a backslash before the cursor makes a new line instead."""
        if self.is_completing:
            self.post_message(self.CompletionKey("enter"))
            return
        row, column = self.cursor_location
        if column and self.get_line(row).plain[column - 1 : column] == "\\":
            self.replace("\n", (row, column - 1), (row, column))
            return
        self._give(is_steering=False)

    def action_steer(self) -> None:
        """Send the prompt into the running turn."""
        self._give(is_steering=True)

    def _give(self, *, is_steering: bool) -> None:
        text = self.text.strip("\n")
        self._at = None
        self.load_text("")
        if text.strip():
            self._history.add(text)
        self.post_message(self.Given(text, is_steering))

    def action_break_line(self) -> None:
        """Insert a line break."""
        self.insert("\n")

    def action_nothing(self) -> None:
        """Ignore the key."""

    def action_open_editor(self) -> None:
        """Open the text in an external editor."""
        self.post_message(self.EditorWanted())

    def action_search_history(self) -> None:
        """Search for an earlier prompt."""
        self.post_message(self.HistoryWanted())

    async def _on_key(self, event: events.Key) -> None:
        if self.is_completing and event.key in ("up", "down", "tab", "escape"):
            event.prevent_default()
            event.stop()
            self.post_message(self.CompletionKey({"tab": "accept", "escape": "close"}.get(event.key, event.key)))
            return
        if event.character == "?" and not self.text:
            event.prevent_default()
            event.stop()
            self.post_message(self.HelpWanted())
            return
        if name := self.KEYS.get(event.key):
            event.prevent_default()
            event.stop()
            obeyed: Callable[[], None] = getattr(self, f"action_{name}")
            obeyed()
            return
        row = self.cursor_location[0]
        is_edge = (event.key == "up" and row == 0) or (event.key == "down" and row == self.document.line_count - 1)
        if is_edge and self.selection.is_empty and self._recall(-1 if event.key == "up" else 1):
            event.prevent_default()
            event.stop()
            return
        await super()._on_key(event)

    def _recall(self, step: int) -> bool:
        """Show an earlier or a later prompt; the draft comes back after the latest one."""
        earlier: Sequence[str] = self._history.prompts
        at = len(earlier) if self._at is None else self._at
        if not 0 <= at + step <= len(earlier):
            return False
        if self._at is None:
            self._draft = self.text
        self._at = at + step if at + step < len(earlier) else None
        self.write(self._draft if self._at is None else earlier[self._at])
        return True

    async def _on_paste(self, event: events.Paste) -> None:
        if len(event.text) > self.LONG or event.text.count("\n") > self.LONG_LINES:
            event.prevent_default()
            event.stop()
            self.post_message(self.Pasted(event.text))
            return
        if paths := dragged(event.text):
            event.prevent_default()
            event.stop()
            self.post_message(self.Dropped(paths))
            return
        event.prevent_default()
        event.stop()
        self.insert(defused(event.text.replace("\r\n", "\n").replace("\r", "\n")))

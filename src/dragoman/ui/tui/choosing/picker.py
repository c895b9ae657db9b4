"""A list to choose from, with a search line."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option as Line

from ..plain_input import PlainInput
from ..words import line
from ..writing.matching import matching

MOST = 200  # lines shown at once
WIDE = 100  # columns from which a preview is shown


class Item(NamedTuple):
    """An entry of the list: a search matches `words` and `more` by letters, and `text` by words."""

    id: str
    words: str
    more: str = ""
    is_current: bool = False
    group: str = ""
    text: str = ""


class Picker(ModalScreen[tuple[str, str] | None]):
    """Returns the key of the choice (`enter`, or one of `keys`) and the id of the chosen item."""

    DEFAULT_CSS = """
    Picker { align: center top; background: $ground 60%; }
    Picker > Vertical { width: 90%; max-width: 100; height: auto; max-height: 80%; margin-top: 3;
        background: $raised; border: round $line; padding: 0 1; }
    Picker.previewing > Vertical { max-width: 160; }
    Picker .title { text-style: bold; width: 1fr; }
    Picker .keys { color: $quiet; width: 1fr; }
    Picker PlainInput { margin: 1 0; }
    Picker Horizontal { height: auto; }
    Picker OptionList { width: 1fr; height: auto; max-height: 20; border: none; padding: 0; background: $raised;
        text-wrap: nowrap; text-overflow: ellipsis; }
    Picker VerticalScroll { width: 1fr; padding: 0 1; border-left: vkey $line; display: none; }
    Picker.previewing VerticalScroll { display: block; }
    """
    BINDINGS = [Binding("escape", "leave", "close", show=False)]

    def __init__(
        self,
        title: str,
        items: Sequence[Item],
        keys: Sequence[tuple[str, str]] = (),
        preview: Callable[[str], Content] | None = None,
    ) -> None:
        super().__init__()
        self._title, self._items = title, items
        self._keys = dict(keys)
        self._preview = preview
        self._input = PlainInput(placeholder="type to search")
        self._list = OptionList()
        self._shown = Static(Content(""))
        self._beside = VerticalScroll(self._shown, can_focus=False)

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(Content(self._title), classes="title")
            yield self._input
            with Horizontal():
                yield self._list
                yield self._beside
            keys = [
                ("⏎", "choose"),
                *((key.replace("ctrl+", "^").upper(), told) for key, told in self._keys.items()),
            ]
            words = [Content.assemble((key, "bold"), f" {told}") for key, told in (*keys, ("esc", "close"))]
            yield Static(Content("   ").join(words), classes="keys")

    def on_mount(self) -> None:
        self.set_class(self._preview is not None and self.app.size.width >= WIDE, "previewing")
        rows = max(self.app.size.height * 4 // 5 - 10, 4)
        self._list.styles.max_height, self._beside.styles.height = rows, rows
        self._fill("")
        self._input.focus()

    def _fill(self, wanted: str) -> None:
        found = matching(wanted, self._items, lambda item: f"{item.words} {item.more}")
        if wanted.strip():
            found += [item for item in self._items if item not in found and _is_said(wanted, item.text)]
        found = found[:MOST]
        self._list.clear_options()
        group = ""
        for item in found:
            if item.group != group and not wanted:
                group = item.group
                self._list.add_option(Line(Content.styled(group, "bold $quiet"), disabled=True))
            mark = ("● " if item.is_current else "  ", "$moving")
            self._list.add_option(
                Line(Content.assemble(mark, line(item.words, 60), "  ", line(item.more, 80, "$quiet")), id=item.id)
            )
        ids = [option.id for option in self._list.options]
        current = next((item.id for item in found if item.is_current), None)
        first = next((at for at, id in enumerate(ids) if id is not None), None)
        self._list.highlighted = ids.index(current) if current in ids and not wanted else first

    def on_input_changed(self, event: Input.Changed) -> None:
        self._fill(event.value)

    def on_input_submitted(self) -> None:
        self._choose("enter")

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        if self._preview is not None and event.option_id is not None:
            self._shown.update(self._preview(event.option_id))

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self._choose("enter")

    def on_key(self, event: events.Key) -> None:
        if event.key in ("up", "down", "pageup", "pagedown"):
            moves: dict[str, Callable[[], None]] = {
                "up": self._list.action_cursor_up,
                "down": self._list.action_cursor_down,
                "pageup": self._list.action_page_up,
                "pagedown": self._list.action_page_down,
            }
            event.stop()
            event.prevent_default()
            moves[event.key]()
        elif event.key in self._keys:
            event.stop()
            event.prevent_default()
            self._choose(event.key)

    def _choose(self, key: str) -> None:
        option = self._list.highlighted_option
        if option is not None and option.id is not None:
            self.dismiss((key, option.id))

    def action_leave(self) -> None:
        """Close the list without a choice."""
        self.dismiss(None)


def _is_said(wanted: str, text: str) -> bool:
    """Whether every searched word occurs in a text."""
    return bool(text) and all(word in text.lower() for word in wanted.lower().split())


class TextPrompt(ModalScreen[str | None]):
    """Asks for a short text, such as a title."""

    DEFAULT_CSS = """
    TextPrompt { align: center top; background: $ground 60%; }
    TextPrompt > Vertical { width: 80%; max-width: 80; height: auto; margin-top: 3; background: $raised;
        border: round $line; padding: 0 1; }
    TextPrompt PlainInput { margin: 1 0; }
    """
    BINDINGS = [Binding("escape", "leave", "close", show=False)]

    def __init__(self, title: str, text: str = "") -> None:
        super().__init__()
        self._title, self._text = title, text

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(Content.styled(self._title, "bold"))
            yield PlainInput(self._text)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self.dismiss(event.value.strip() or None)

    def action_leave(self) -> None:
        """Close the prompt without a text."""
        self.dismiss(None)

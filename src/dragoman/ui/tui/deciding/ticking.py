"""Checkboxes that show their state by a sign; those of the toolkit show it by colour alone."""

from rich.segment import Segment
from textual.strip import Strip
from textual.widgets import Checkbox, SelectionList

ON, OFF = "✓", " "


class TickBox(Checkbox):
    """A checkbox with a sign."""

    def on_mount(self) -> None:
        self._tick()

    def watch_value(self) -> None:
        self._tick()
        super().watch_value()

    def _tick(self) -> None:
        self.BUTTON_INNER = ON if self.value else OFF


class TickList(SelectionList[str]):
    """A list of checkboxes with signs."""

    def render_line(self, y: int) -> Strip:
        drawn = super().render_line(y)
        segments = list(drawn)
        if len(segments) > 1 and segments[0].text == TickBox.BUTTON_LEFT:
            style = segments[1].style
            at = style.meta.get("option") if style else None
            is_on = at is not None and self.get_option_at_index(at).value in self.selected
            segments[1] = Segment(ON if is_on else OFF, style)
        return Strip(segments, drawn.cell_length)

"""Text for the screen: untrusted text made safe to show, figures and times."""

from collections.abc import Iterable

from textual.content import Content

from ... import schema as s
from ..legible import legible, one_line

SIGNS = {"pending": "○", "in_progress": "▸", "completed": "✓", "failed": "✗", "cancelled": "■"}
COLOURS = {
    "pending": "$quiet",
    "in_progress": "$moving",
    "completed": "$good",
    "failed": "$bad",
    "cancelled": "$warn",
}
MAX_SHOWN = 200_000  # characters shown of one text


def shown(text: str, style: str = "") -> Content:
    """Untrusted text made safe to show: no markup, no control sequences, no hidden characters."""
    if len(text) > MAX_SHOWN:
        half, left_out = MAX_SHOWN // 2, len(text) - MAX_SHOWN
        text = f"{text[:half]}\n⟨… {left_out} characters left out …⟩\n{text[-half:]}"
    return Content.styled(legible(text).replace("\t", "    "), style)


def line(text: str, columns: int | None = None, style: str = "") -> Content:
    """Untrusted text made safe to show, as one line."""
    return Content.styled(one_line(text[:4000], columns), style)


def lines(parts: Iterable[Content]) -> Content:
    """Join the parts, each on a line of its own."""
    return Content("\n").join(parts)


def flowing(cells: Iterable[Content], columns: int, gap: int = 3) -> Content:
    """Arrange cells side by side, as many in a line as fit; a cell is never broken."""
    rows, room = list[list[Content]](), 0
    for cell in cells:
        if not rows or cell.cell_length + gap > room:
            rows.append([])
            room = columns + gap
        rows[-1].append(cell)
        room -= cell.cell_length + gap
    return Content("\n").join(Content(" " * gap).join(row) for row in rows)


def duration(seconds: float | None) -> str:
    """How long something took: 1.4 s, 0:12, 1:02:03; empty below one second."""
    if seconds is None or seconds < 1:
        return ""
    if seconds < 10:
        return f"{seconds:.1f} s"
    return clock(seconds)


def clock(seconds: float) -> str:
    """A running time: 0:12, 1:02:03."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def amount(number: int) -> str:
    """A number of tokens: 940, 12k, 1.2M."""
    if number < 1000:
        return str(number)
    return f"{number / 1000:.0f}k" if number < 1_000_000 else f"{number / 1_000_000:.1f}M"


def cost(told: s.Cost) -> str:
    """An amount of money, or of the agent's own unit."""
    sign = {"USD": "$", "EUR": "€"}.get(told.currency)
    return f"{sign}{told.amount:.2f}" if sign else f"{told.amount:.2f} {one_line(told.currency, 12)}"


def short(path: str, cwd: str) -> str:
    """A path, relative to the session's directory if it is inside."""
    return path.removeprefix(f"{cwd}/") if cwd else path

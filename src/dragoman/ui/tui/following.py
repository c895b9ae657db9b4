"""Follow mode: shows the file that the agent works on, around the current line."""

import os
import stat
from collections.abc import Sequence

from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Static

from ... import schema as s
from ..model.conversation import ConversationModel
from .words import line, lines, short, shown

AROUND = 3  # lines shown above and below
WIDEST = 200  # characters shown of a line
MAX_FILE = 2 * 1024 * 1024  # bytes read to find the line


class FollowView(Vertical):
    """Shows the agent's current file while the user follows the agent."""

    DEFAULT_CSS = """
    FollowView { height: auto; width: 1fr; padding: 0 1; border-top: solid $line; display: none; }
    FollowView.following { display: block; }
    """

    def __init__(self, model: ConversationModel) -> None:
        super().__init__()
        self._model = model
        self._words = Static(Content(""))
        self._drawn: object = None

    def compose(self) -> "list[Static]":
        return [self._words]

    def follow(self, is_following: bool) -> None:
        """Start or stop following the agent."""
        self._drawn = None
        self.set_class(is_following, "following")
        self.draw()

    @property
    def is_following(self) -> bool:
        """Whether the user follows the agent."""
        return self.has_class("following")

    def draw(self) -> None:
        """Draw the agent's current location."""
        if not self.is_following:
            return
        place = place_of(self._model)
        status = self._model.transcript.tool_calls[-1].status if place else ""
        if (place, status) == self._drawn:
            return
        self._drawn = (place, status)
        if place is None:
            self._words.update(Content.styled("→ the agent has not said yet at which file it is", "$quiet"))
            return
        name, number = short(place.path, self._model.cwd), place.line or 1
        head = Content.assemble(("→ ", "$moving"), line(f"{name}:{number}", style="bold"))
        self._words.update(lines([head, *_code(place.path, number)]))


def place_of(model: ConversationModel) -> s.ToolCallLocation | None:
    """The last location that the agent reported; None if there is none."""
    for call in reversed(model.transcript.tool_calls[-50:]):
        if call.locations:
            return call.locations[-1]
    return None


def _code(path: str, number: int) -> Sequence[Content]:
    """The numbered lines around a line of a file, or the reason why the file cannot be shown."""
    try:
        text = _read(path)
    except (OSError, ValueError) as exc:
        why = exc.strerror if isinstance(exc, OSError) and exc.strerror else str(exc)
        return [Content.styled(f"  it cannot be shown: {why}", "$quiet")]
    rows = text.split("\n")
    at = min(max(number, 1), len(rows))
    found = []
    for place in range(max(at - AROUND, 1), min(at + AROUND, len(rows)) + 1):
        style = "bold" if place == at else "$quiet"
        mark = "▸" if place == at else " "
        found.append(Content.assemble((f"{mark}{place:>6} │ ", "$quiet"), shown(rows[place - 1][:WIDEST], style)))
    return found


def _read(path: str) -> str:
    """Read the beginning of a regular file; raises ValueError for anything else, without blocking."""
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(file, "rb") as opened:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise ValueError("it is no file")
        return opened.read(MAX_FILE).decode(errors="replace")

"""The screen with a recorded conversation in the place of an agent, and what is on it as text."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from itertools import groupby
from pathlib import Path
from types import SimpleNamespace

import pytest
from driven import Driven
from rich.segment import Segment
from rich.style import Style
from textual.widgets import Input, TextArea
from views import NOW, View

from dragoman.host.processes import Launch
from dragoman.ui.driving.driver import DriveOptions
from dragoman.ui.tui.app import DragomanApp, TuiOptions
from dragoman.ui.tui.pane import ConversationPane
from dragoman.ui.tui.theme import DARK, colours

AGENT = Launch(command="coder", name="coder")
LOOKS = ("bold", "dim", "italic", "underline", "reverse", "strike")


@asynccontextmanager
async def recorded(cwd: Path, *, size: tuple[int, int] = (120, 40), theme: str = DARK) -> AsyncIterator[Driven]:
    """A screen whose conversations begin empty and are told what the test tells them; its clock stands still."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ConversationPane, "begin", lambda self: None)
        patch.setattr("dragoman.ui.tui.header.time", SimpleNamespace(monotonic=lambda: NOW))
        patch.setattr(TextArea, "_toggle_cursor_blink_visible", lambda self: None)
        patch.setattr(Input, "_toggle_cursor", lambda self: None)
        app = DragomanApp(TuiOptions(first=DriveOptions(agent=AGENT, cwd=str(cwd)), theme=theme))
        async with app.run_test(size=size, notifications=True) as pilot:
            driven = Driven(app, pilot)
            for place in ("app", "pilot"):
                patch.setattr(f"textual.{place}.wait_for_idle", driven.quiet)
            yield driven


async def draw(driven: Driven, view: View) -> None:
    """Have a view on the screen."""
    for event in view.events(driven.driver.options.cwd):
        driven.driver.tell(event)
    await driven.until(lambda: not driven.pane.is_behind)
    if driven.model.questions:
        await driven.asked(len(driven.model.questions))
    if view.act is not None:
        await view.act(driven)
    await painted(driven)


async def painted(driven: Driven) -> None:
    """Wait until everything is laid out and painted, at the size and in the colours that the screen has now."""
    size = driven.app.size
    await driven.until(lambda: driven.app.screen.size == size and driven.pane.size.width == size.width)
    seen = list[str]()
    while len(seen) < 3 or len({*seen[-3:]}) > 1:  # what is laid out anew may have more to say
        seen.append(driven.text)
        await asyncio.sleep(1 / 30)  # as long as a pane gathers changes
        await driven.until(lambda: not any(pane.is_behind for pane in driven.app.panes))
        driven.app.screen._on_timer_update()
        await driven.quiet()


def described(driven: Driven, roles: dict[str, str]) -> tuple[list[str], dict[int, str]]:
    """The lines on the screen, and for each, by its number, the stretches that look otherwise than plain words.

    A colour is named by its role in the theme, so that two themes tell the same where they mean the same.
    """
    texts, looks = list[str](), dict[int, str]()
    for number, strip in enumerate(driven.app.screen._compositor.render_strips(), 1):
        segments = [segment for segment in strip if segment.text]
        texts.append("".join(segment.text for segment in segments).rstrip())
        if told := " | ".join(_stretches(segments, roles)):
            looks[number] = told
    return texts, looks


def _stretches(segments: list[Segment], roles: dict[str, str]) -> Iterator[str]:
    column = 0
    for look, group in groupby(segments, lambda segment: _look(segment.style, roles)):
        length = sum(segment.cell_length for segment in group)
        if look:
            yield f"{column}+{length} {look}"
        column += length


def _look(style: Style | None, roles: dict[str, str]) -> str:
    if style is None:
        return ""
    words = [name for name in LOOKS if getattr(style, name)]
    for sign, colour, plain in (("", style.color, "words"), ("on ", style.bgcolor, "ground")):
        if colour is not None and colour.triplet is not None:
            name = roles.get(colour.triplet.hex, colour.triplet.hex)
            words += [sign + name] if name != plain else []
    return " ".join(words)


def roles_of(kind: str) -> dict[str, str]:
    """The role of each colour of a theme."""
    return {colour: role for role, colour in colours(kind).items()}

"""The screen with a real agent behind it, for tests: keys go in, what is shown comes out as text."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from patience import PATIENCE
from textual.message_pump import MessagePump
from textual.pilot import Pilot

from dragoman.host.processes import Launch, find_agent
from dragoman.ui.driving.driver import ConversationDriver, DriveOptions
from dragoman.ui.model.conversation import ConversationModel
from dragoman.ui.tui.app import DragomanApp, TuiOptions
from dragoman.ui.tui.pane import ConversationPane

INERT = 600.0  # seconds


class Driven:
    """A screen that runs, and what a person does at it."""

    def __init__(self, app: DragomanApp, pilot: Pilot[None]) -> None:
        self.app, self.pilot = app, pilot

    @property
    def pane(self) -> ConversationPane:
        return self.app.pane

    @property
    def driver(self) -> ConversationDriver:
        return self.pane.driver

    @property
    def model(self) -> ConversationModel:
        return self.pane.model

    @property
    def lines(self) -> list[str]:
        """What is on the screen, line by line."""
        strips = self.app.screen._compositor.render_strips()
        return ["".join(segment.text for segment in strip).rstrip() for strip in strips]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    async def quiet(self, *_: object) -> None:
        """Wait until no widget has a message to take in.

        The toolkit would wait until the processor has nothing to do, which takes 40 ms for each key and more.
        """
        for _ in range(2):  # a widget that takes one in at the first look may send others
            if self.app._exception is not None or not await self.pilot._wait_for_screen():
                return  # it has failed
            while any(each.message_queue_size for each in self._takers):
                await self.pilot._wait_for_screen()

    @property
    def _takers(self) -> list[MessagePump]:
        return [self.app, *self.app.screen.walk_children(with_self=True)]

    async def until(self, is_so: Callable[[], object]) -> None:
        """Wait until something is so, and no widget has anything to do."""
        end = time.monotonic() + PATIENCE
        while not self._is(is_so):
            assert time.monotonic() < end, f"still not so; on the screen:\n{self.text}"
            await asyncio.sleep(0.01)
            await self.pilot._wait_for_screen()
        await self.quiet()

    @staticmethod
    def _is(so: Callable[[], object]) -> bool:
        try:
            return bool(so())
        except KeyError:  # the styles of a widget that was just put there are not known yet
            return False

    async def shows(self, *words: str) -> None:
        """Wait until words are on the screen."""
        await self.until(lambda: all(word in self.text for word in words))

    async def gone(self, *words: str) -> None:
        await self.until(lambda: not any(word in self.text for word in words))

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)

    async def type(self, text: str) -> None:
        """Write something into the input and send it."""
        await self.until(lambda: self.app.focused is self.pane.composer)
        self.pane.composer.write(text)
        await self.press("enter")

    async def settled(self) -> None:
        """Wait until no turn runs, and all that was told is painted."""
        await self.until(lambda: not self.model.turns and not self.pane.is_behind)

    async def asked(self, count: int = 1) -> None:
        """Wait until questions are open, and have the time pass in which no key counts."""
        await self.until(lambda: len(self.model.questions) == count and self.pane.has_class("asks"))
        await self.until(lambda: self.app.focused and self.pane.questions in self.app.focused.ancestors_with_self)
        self.pane.questions.quiet_since = -INERT


@asynccontextmanager
async def screen(
    cwd: Path,
    agent: str | Launch = "testy",
    *,
    size: tuple[int, int] = (120, 36),
    theme: str = "dragoman-dark",
    further: Sequence[DriveOptions] = (),
    is_reached: bool = True,
    latest: bool = False,
    keys: dict[str, str] | None = None,
) -> AsyncIterator[Driven]:
    """A screen with a conversation; the agent is reached when it is given."""
    launch = find_agent(agent) if isinstance(agent, str) else agent
    first = DriveOptions(agent=launch, cwd=str(cwd), latest=latest)
    app = DragomanApp(TuiOptions(first=first, tabs=list(further), theme=theme, keys=keys or {}))
    with pytest.MonkeyPatch.context() as patch:
        # A key counts when a test says so (`asked`), however slow the machine is.
        patch.setattr("dragoman.ui.tui.deciding.questions.INERT", INERT)
        patch.setattr("dragoman.ui.driving.host.ARMING", 0.0)
        async with app.run_test(size=size, notifications=True) as pilot:
            driven = Driven(app, pilot)
            for place in ("app", "pilot"):
                patch.setattr(f"textual.{place}.wait_for_idle", driven.quiet)
            try:
                if is_reached:
                    await driven.until(lambda: driven.driver.session is not None)
                    await driven.shows("ready")
                yield driven
            finally:
                await asyncio.gather(*(pane.leave() for pane in app.panes))

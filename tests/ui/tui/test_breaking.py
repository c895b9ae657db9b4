"""What breaks while somebody works: the agent, the gateway, the size.  Nothing said is lost."""

import contextlib
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from driven import Driven, screen
from leftovers import children
from patience import PATIENCE
from recorded import draw, painted, recorded
from test_shown import NAMED

from dragoman.cli.run import with_token
from dragoman.host.processes import Launch, find_agent
from dragoman.ui.driving.driver import DriveOptions

SERVE = [sys.executable, "-W", "error", "-m", "dragoman", "serve", "--agent", "testy", "--listen"]


async def said(driven: Driven, text: str) -> None:
    await driven.type(text)
    await driven.settled()


async def test_an_agent_that_is_killed_in_a_turn_is_said_to_be_and_is_started_again(shop: Path) -> None:
    before = children()
    async with screen(shop) as driven:
        await said(driven, "echo said before")
        await driven.type("wait")
        await driven.shows("Waiting.")
        await driven.type("said meanwhile")
        await driven.shows("1 said meanwhile")
        for pid in children() - before:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        await driven.shows("✗ not connected", "killed by signal 9", "said before", "Waiting.", "1 said meanwhile")
        await driven.press("ctrl+r")
        await driven.shows("Earlier prompts")  # it is the input that has the keys
        await driven.press("escape")
        driven.pane.transcript.focus()
        await driven.press("ctrl+r")
        await driven.shows("this is a new one", "said before")
        await driven.until(lambda: not driven.model.queue)
        await driven.settled()
        assert driven.model.transcript.messages[-1].text == "said meanwhile"


class RunningGateway:
    """A gateway that is started and killed on one port."""

    def __init__(self, cwd: Path) -> None:
        self._cwd, self._at = cwd, "127.0.0.1:0"
        self._process: subprocess.Popen[str] | None = None
        self.url = ""

    def start(self) -> None:
        self._process = subprocess.Popen([*SERVE, self._at], cwd=self._cwd, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout
        told = self._process.stdout.readline().strip()
        self._at, self.url = told.partition("//")[2].partition("/")[0], f"{told}/testy"

    def end(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(PATIENCE)
            assert self._process.stdout
            self._process.stdout.close()
            self._process = None


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[RunningGateway]:
    place = RunningGateway(tmp_path)
    place.start()
    yield place
    place.end(signal.SIGTERM)


async def test_a_gateway_that_is_started_again_is_found_again_with_all_that_was_said(
    shop: Path, gateway: RunningGateway
) -> None:
    local = DriveOptions(agent=find_agent("testy"), cwd=str(shop))
    async with screen(shop, with_token(find_agent(gateway.url)), further=[local]) as driven:
        await said(driven, "title At the gateway\necho said before")
        gateway.end(signal.SIGTERM)
        await driven.shows("○ not connected:", "it is tried again; ^R tries at once", "said before")
        await driven.type("said meanwhile")
        await driven.shows("1 said meanwhile")
        gateway.start()
        driven.driver.try_now()
        await driven.until(lambda: driven.driver.session is not None and not driven.model.queue)
        await driven.settled()
        await driven.shows("said before", "said meanwhile", "At the gateway")
        assert driven.model.transcript.messages[-1].text.endswith("said meanwhile")
        # Its sessions are listed beside those of an agent here.
        await driven.press("alt+2")
        await driven.until(lambda: driven.driver.session is not None)
        await said(driven, "title Right here")
        await driven.press("f3")
        await driven.shows("Right here", "At the gateway")
        await driven.press(*"gateway", "enter")
        await driven.until(lambda: len(driven.app.panes) == 3)
        await driven.shows("said before", "said meanwhile")


async def test_a_screen_of_any_size_shows_what_it_can_and_then_all_of_it_again(shop: Path) -> None:
    dice = random.Random(16)
    async with recorded(shop, size=(120, 40)) as driven:
        await draw(driven, NAMED["working"])
        before = driven.lines
        for size in ((1, 1), (3, 40), (200, 2), *((dice.randint(4, 160), dice.randint(3, 50)) for _ in range(7))):
            await driven.pilot.resize_terminal(*size)
        await driven.pilot.resize_terminal(120, 40)
        await painted(driven)
        assert driven.lines == before


ROGUES = {  # and what a person reads of each
    "noise": "hello",
    "unknown-stop-reason": "hello",
    "wrong-result": "✗ the turn failed",
    "stillborn": "rogue: no API key",
    "closed-stdout": "✗ not connected",
}


def rogue(behaviour: str) -> Launch:
    return Launch(command=sys.executable, args=["-m", "dragoman.testing.rogue", behaviour, "0"])


async def test_agents_that_break_the_rules_break_no_screen(shop: Path) -> None:
    first, *others = (DriveOptions(agent=rogue(name), cwd=str(shop)) for name in ROGUES)
    async with screen(shop, first.agent, further=others, is_reached=False) as driven:
        for at, words in enumerate(ROGUES.values()):
            driven.app.show_tab(at)
            await driven.until(lambda: driven.driver.session is not None or driven.model.link.kind == "lost")
            if driven.driver.session is not None:
                await driven.type("hello")
                await driven.until(lambda: not driven.model.turns)
            await driven.shows(words)
        assert driven.app.is_running

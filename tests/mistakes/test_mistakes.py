"""Whoever makes a mistake is told so where it was made, in the words docs/reference/mistakes.md has."""

import asyncio
import json
import logging
import re
import subprocess
import sys
import textwrap
import warnings
from pathlib import Path

import pytest
from patience import PATIENCE

from dragoman import (
    Agent,
    Client,
    InternalError,
    Proxy,
    blocking,
    compose,
    connect,
    extension,
    serve,
    serve_on,
    streams,
)
from dragoman import schema as s
from dragoman.host import Host
from dragoman.testing import Echo, RecordingClient, Testy

from .table import CHAPTERS, CLASSES, CONNECTING, HANDLERS, TURNS, WITHOUT_REMOTE, Mistake

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "mistakes.md"
NAMES: dict[str, object] = {
    "Agent": Agent,
    "Client": Client,
    "Echo": Echo,
    "Host": Host,
    "Path": Path,
    "Proxy": Proxy,
    "RecordingClient": RecordingClient,
    "asyncio": asyncio,
    "blocking": blocking,
    "compose": compose,
    "connect": connect,
    "extension": extension,
    "s": s,
    "serve": serve,
    "serve_on": serve_on,
    "streams": streams,
}


def written(mistake: Mistake, head: str = "async def main():") -> dict[str, object]:
    """The names that a program defines when it is written as a function."""
    names = dict(NAMES)
    exec(f"{head}\n{textwrap.indent(mistake.wrote, '    ')}", names)
    return names


def is_told(mistake: Mistake, said: str) -> bool:
    pattern = ".*".join(map(re.escape, mistake.told.split("…"))) if "…" in mistake.told else re.escape(mistake.told)
    return re.fullmatch(pattern, said, re.DOTALL) is not None


def first_line(mistake: Mistake) -> str:
    return " ".join(mistake.wrote.split())


@pytest.mark.parametrize("mistake", CLASSES, ids=first_line)
def test_a_class_is_checked_where_it_is_defined(mistake: Mistake) -> None:
    with warnings.catch_warnings(record=True, action="always") as warned:
        try:
            exec(mistake.wrote, dict(NAMES))
        except (TypeError, ValueError) as exc:
            said = str(exc)
        else:
            said = str(warned[-1].message)
    assert is_told(mistake, said), said


@pytest.mark.parametrize("mistake", TURNS, ids=first_line)
async def test_a_turn_is_told_of_its_mistake(mistake: Mistake, caplog: pytest.LogCaptureFixture) -> None:
    answer = written(mistake, "async def answer(self, turn):")["answer"]
    async with asyncio.timeout(20), connect(type("Mine", (Agent,), {"answer": answer})) as client:
        session = await client.new_session()
        with caplog.at_level(logging.ERROR), pytest.raises(Exception):  # noqa: B017 - which one is said below
            await session.prompt("go")
    said = [str(record.exc_info[1]) for record in caplog.records if record.exc_info and record.exc_info[1]]
    assert is_told(mistake, said[-1] if said else caplog.text), said


@pytest.mark.parametrize("mistake", CONNECTING, ids=first_line)
async def test_whoever_connects_is_told_of_a_mistake(mistake: Mistake) -> None:
    main = written(mistake)["main"]
    with pytest.raises(Exception) as caught:
        async with asyncio.timeout(20):
            await main()  # type: ignore[operator]
    assert is_told(mistake, str(caught.value)), str(caught.value)


@pytest.mark.parametrize("mistake", HANDLERS, ids=first_line)
async def test_whoever_answers_with_what_is_no_answer_is_told(
    mistake: Mistake, caplog: pytest.LogCaptureFixture
) -> None:
    names = dict(NAMES)
    exec(mistake.wrote, names)
    async with asyncio.timeout(20), connect(Testy, names["Mine"]()) as client:  # type: ignore[operator]
        session = await client.new_session()
        with pytest.raises(InternalError), caplog.at_level(logging.ERROR):
            await session.prompt("ask")
        assert (await session.prompt("echo still here")).stop_reason == "end_turn"
    said = [str(record.exc_info[1]) for record in caplog.records if record.exc_info]
    assert any(is_told(mistake, each) for each in said), said


# Runs each program it is given as if the libraries had never been installed, and says what came of it.
HIDING = """
import asyncio, importlib.machinery, json, sys, textwrap

class Finder(importlib.machinery.PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name.partition(".")[0] in ("h11", "h2", "websockets"):
            return None
        return super().find_spec(name, path, target)

installed = importlib.machinery.PathFinder
sys.meta_path[:] = [Finder if finder is installed else finder for finder in sys.meta_path]
from dragoman import connect
said = []
for program in json.load(sys.stdin):
    names = {"connect": connect}
    exec("async def main():\\n" + textwrap.indent(program, "    "), names)
    try:
        asyncio.run(names["main"]())
    except Exception as exc:
        said.append(str(exc))
    else:
        said.append("nothing")
json.dump(said, sys.stdout)
"""


def test_whoever_lacks_the_remote_extra_is_told_what_to_install() -> None:
    programs = json.dumps([mistake.wrote for mistake in WITHOUT_REMOTE])
    command = [sys.executable, "-c", HIDING]
    ended = subprocess.run(command, input=programs, capture_output=True, text=True, timeout=PATIENCE)
    assert ended.stderr == ""
    assert json.loads(ended.stdout) == [mistake.told for mistake in WITHOUT_REMOTE]


def page() -> str:
    """docs/reference/mistakes.md as the tables have it."""
    lines = ["# Mistakes, and what you are told", ""]
    lines += ["Each row is run by the tests: the program on the left gets the message on the right.", ""]
    for chapter, mistakes in CHAPTERS.items():
        lines += [f"## {chapter}", "", "| you write | you are told |", "|---|---|"]
        lines += [f"| {_code(mistake.wrote)} | {_cell(mistake.told)} |" for mistake in mistakes]
        lines.append("")
    return "\n".join(lines)


def _code(program: str) -> str:
    return "<br>".join(f"`{line}`" for line in program.splitlines())


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def test_the_page_has_every_mistake_and_says_what_the_tests_saw() -> None:
    assert PAGE.read_text() == page()


def test_there_are_thirty_mistakes_at_least() -> None:
    assert sum(map(len, CHAPTERS.values())) >= 30

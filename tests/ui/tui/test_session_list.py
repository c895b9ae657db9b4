"""Sessions: their list, and everything that can be done with one of them."""

import json
import sys
from pathlib import Path

import pytest
from driven import Driven, screen

from dragoman.host.processes import Launch, find_agent
from dragoman.ui.driving.driver import DriveOptions
from dragoman.ui.tui.choosing.picker import Picker

PEERS = Path(__file__).parent / "peers"


def workmate() -> Launch:
    """An agent that keeps its sessions for the next start."""
    return Launch(command=sys.executable, args=[str(PEERS / "workmate.py")])


async def said(driven: Driven, text: str) -> None:
    await driven.type(text)
    await driven.settled()


async def a_second_session(driven: Driven) -> str:
    """Have a session about apples, and go on in another; gives the id of the first."""
    await said(driven, "title About fruit")
    await said(driven, "echo apples and pears")
    first = driven.model.id
    await driven.press("f3")
    await driven.shows("Sessions", "New session", "About fruit")
    await driven.press("up", "enter")
    await driven.until(lambda: driven.model.id not in ("", first))
    await driven.gone("apples")
    return first


async def test_a_session_is_found_by_what_was_said_in_it_and_previewed(shop: Path) -> None:
    async with screen(shop) as driven:
        first = await a_second_session(driven)
        await said(driven, "echo nuts")
        await driven.press("f3")
        await driven.shows("type to search")
        await driven.press(*"pears")
        await driven.shows("About fruit", "You: echo apples and pears")
        await driven.gone("You: echo nuts")
        await driven.press("enter")
        await driven.until(lambda: driven.model.id == first)
        await driven.shows("apples and pears")


async def test_a_session_is_renamed_from_the_list(shop: Path) -> None:
    async with screen(shop) as driven:
        await a_second_session(driven)
        await driven.press("f3")
        await driven.shows("About fruit")
        await driven.press(*"fruit", "ctrl+r")
        await driven.shows("Title of the session")
        await driven.press("end", *" salad", "enter")
        await driven.press("f3")
        await driven.shows("About fruit salad")


async def test_the_session_on_the_screen_is_renamed_from_the_palette(shop: Path) -> None:
    async with screen(shop) as driven:
        await driven.press("ctrl+p")
        await driven.until(lambda: "CommandPalette" in type(driven.app.screen).__name__)
        await driven.press(*"Rename session")
        await driven.shows("Give the session another title")
        await driven.press("enter")
        await driven.shows("Title of the session")
        await driven.press(*"My errand", "enter")
        await driven.until(lambda: "shop ▸ My errand" in driven.lines[0])


async def test_a_session_is_forked_and_what_follows_is_in_the_copy_alone(shop: Path) -> None:
    async with screen(shop) as driven:
        await said(driven, "echo before")
        first = driven.model.id
        await driven.press("f3")
        await driven.shows("^F fork")
        await driven.press("ctrl+f")
        await driven.until(lambda: driven.model.id != first)
        await driven.shows("before", "you go on in a copy")
        await said(driven, "echo after")
        await driven.press("f3")
        await driven.shows("New session")
        await driven.press(*"before")
        await driven.until(lambda: len(driven.app.screen.query("OptionList").first().options) >= 1)
        await driven.press("escape")
        driven.driver.do(driven.driver.go_to(first))
        await driven.until(lambda: driven.model.id == first)
        await driven.gone("after")


async def test_a_session_is_deleted_only_after_a_second_question(shop: Path) -> None:
    async with screen(shop) as driven:
        await a_second_session(driven)
        for answer, count in (("enter", 2), ("down", 1)):
            await driven.press("f3")
            await driven.shows("About fruit")
            await driven.press(*"fruit", "ctrl+d")
            await driven.shows("Delete About fruit?", "Keep it", "Delete it for good")
            await driven.press(*([answer] if answer == "enter" else [answer, "enter"]))
            await driven.until(lambda: not isinstance(driven.app.screen, Picker))
            await driven.pilot.pause()
            found = await driven.driver.sessions()
            while len(found) != count:
                found = await driven.driver.sessions()
        await driven.press("f3")
        await driven.shows("New session")
        assert "About fruit" not in driven.text


async def test_the_session_that_is_open_cannot_be_deleted(shop: Path) -> None:
    async with screen(shop) as driven:
        await said(driven, "title Open one")
        await driven.press("f3")
        await driven.shows("^D delete")
        await driven.press(*"open one", "ctrl+d")
        await driven.shows("the session is open; close it first")


async def test_a_session_is_put_away_and_taken_out_again(shop: Path) -> None:
    async with screen(shop) as driven:
        first = await a_second_session(driven)
        await driven.press("f3")
        await driven.shows("^A put away")
        await driven.press(*"fruit", "ctrl+a")
        await driven.press("f3")
        await driven.shows("Sessions that were put away")
        assert "About fruit" not in driven.text
        await driven.press(*"put away", "enter")
        await driven.shows("About fruit", "^A take out again")
        await driven.press("enter")
        await driven.until(lambda: driven.model.id == first)
        assert [info.archived for info in await driven.driver.sessions() if info.session_id == first] == [None]


async def test_sessions_of_all_agents_that_are_open_are_in_one_list(shop: Path) -> None:
    further = DriveOptions(agent=workmate(), cwd=str(shop))
    async with screen(shop, further=[further]) as driven:
        await said(driven, "title Of Testy")
        await driven.press("alt+2")
        await driven.until(lambda: driven.driver.session is not None)
        await said(driven, "title Of the workmate")
        await driven.press("f3")
        await driven.shows("Of Testy", "Of the workmate")
        await driven.press(*"of testy", "enter")
        await driven.until(lambda: len(driven.app.panes) == 3)
        await driven.shows("3 ", "Of Testy")


async def test_an_agent_without_a_list_of_sessions_says_so(shop: Path) -> None:
    async with screen(shop, "echo") as driven:
        await driven.press("f3")
        await driven.shows("this agent does not list its sessions")


@pytest.mark.parametrize("kind", ["md", "json"])
async def test_a_conversation_is_written_to_a_file(shop: Path, kind: str) -> None:
    async with screen(shop) as driven:
        await said(driven, "title Lost & found\nmessage\ntool")
        driven.app.action_export(kind)
        await driven.shows("Write it to which file?", f"lost-found.{kind}")
        await driven.press("enter")
        await driven.shows("written:")
        text = (shop / f"lost-found.{kind}").read_text()
        if kind == "md":
            assert text.startswith("# Lost & found\n\nTesty, ")
            assert "## You\n\ntitle Lost & found\nmessage\ntool" in text
            assert "```diff\n@@ -1,1 +1,1 @@\n-a = 1\n+a = 2\n```" in text
        else:
            told = json.loads(text)
            assert [entry["entry"] for entry in told["entries"]] == [
                "Message",
                "Message",
                "ToolCallEntry",
                "TurnEnd",
            ]
        # What is there already is not written over.
        driven.app.action_export(kind)
        await driven.shows("Write it to which file?")
        await driven.press("enter")
        await driven.shows("not written: File exists")


async def test_the_latest_session_is_gone_on_with(shop: Path) -> None:
    async with screen(shop, workmate()) as driven:
        await said(driven, "echo of yesterday")
    async with screen(shop, workmate(), latest=True) as driven:
        await driven.shows("of yesterday", "▌  echo of yesterday")
        await said(driven, "echo of today")
        await driven.shows("of today")


async def test_without_an_earlier_session_continue_says_what_to_do(shop: Path) -> None:
    async with screen(shop, find_agent("testy"), latest=True, is_reached=False) as driven:
        await driven.shows("has no session in this directory", "leave out --continue")

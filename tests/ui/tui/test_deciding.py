"""Questions, forms, pages and logins: what is asked, and that only the person answers."""

import asyncio
import sys
from pathlib import Path

import pytest
from driven import Driven, screen
from recorded import recorded
from views import CHOICES, asks_in_a_form, began

from dragoman import schema as s
from dragoman.host.processes import Launch
from dragoman.ui.model import events as e
from dragoman.ui.model.intents import AnswerQuestion
from dragoman.ui.model.parts import PendingQuestion

PEERS = Path(__file__).parents[1] / "peers"


def put(driven: Driven, **fields: object) -> "asyncio.Task[AnswerQuestion]":
    """Put a question as the host does; gives what will be answered."""
    question = PendingQuestion(id="", kind="permission", choices=CHOICES, **fields)  # type: ignore[arg-type]
    return asyncio.ensure_future(driven.driver.host.put(question, lambda _: "nothing"))


async def test_questions_that_wait_together_are_a_list_and_each_is_answered_for_itself(shop: Path) -> None:
    async with recorded(shop) as driven:
        driven.driver.tell(began(str(shop)))
        first, second = (
            put(driven, title="Run a command?", text="one"),
            put(driven, title="Edit a file?", text="two"),
        )
        await driven.asked(2)
        await driven.shows("? Run a command?", "1 of 2  ←/→", "? 2 to decide")
        await driven.press("right")
        await driven.shows("? Edit a file?", "2 of 2", "two")
        await driven.asked(2)
        await driven.press("n")
        assert (await second).choice == "n"
        await driven.shows("? Run a command?", "✗ Deny  Edit a file? two")
        assert not first.done()
        await driven.asked()
        await driven.press("s")
        assert (await first).choice == "s"
        await driven.shows("✓ Allow exactly this in this session")


async def test_a_question_of_many_lines_is_scrolled_and_its_answers_stay_in_sight(shop: Path) -> None:
    async with recorded(shop, size=(80, 24)) as driven:
        driven.driver.tell(began(str(shop)))
        answer = put(driven, title="Run a command?", text="\n".join(f"echo {number}" for number in range(100)))
        await driven.asked()
        await driven.shows("echo 0", "y Allow once", "n Deny")
        assert "echo 99" not in driven.text
        for _ in range(30):  # more than there are pages
            await driven.press("pagedown")
        await driven.shows("echo 99", "y Allow once", "n Deny")
        await driven.asked()
        await driven.press("d")
        assert (await answer).choice == "reject_turn"


async def test_every_kind_of_field_is_filled_in_and_checked(shop: Path) -> None:
    async with recorded(shop, size=(100, 50)) as driven:
        driven.driver.tell(began(str(shop)))
        (asked,) = [event for event in asks_in_a_form(str(shop)) if isinstance(event, e.QuestionPut)]
        form = s.FormElicitation(
            message="What is to be released?", session_id="s", requested_schema=asked.question.form
        )
        filled = asyncio.ensure_future(driven.driver.host.fill_form(form))
        await driven.asked()
        await driven.shows(
            "Name of the release *", "as people see it", "▐✓▌ yes", "▐✓▌ beta", "▐ ▌ stable", "▐✓▌ Linux"
        )
        await driven.press(*"2.4", "tab", *"soon", "tab", "end", *"00", "tab", *"2", "ctrl+s")
        await driven.shows("Date is not a valid date", "Number is at most 99", "Share of users is at most 1")
        await driven.press("shift+tab", "shift+tab")
        await driven.press(*["backspace"] * 4, *"2026-01-31", "tab", "end", "backspace", "tab", "backspace", *"0.5")
        await driven.press("tab", "space")  # no draft
        await driven.press("tab", "home", "space")  # stable, and so not beta
        await driven.press("tab", "end", "space")  # Windows, too
        await driven.shows("▐ ▌ yes", "▐✓▌ stable", "▐ ▌ beta", "▐✓▌ Windows")
        await driven.press("ctrl+s")
        assert await filled == {
            "name": "2.4",
            "date": "2026-01-31",
            "number": 30,
            "share": 0.5,
            "draft": False,
            "channel": "stable",
            "systems": ["Linux", "Windows"],
        }


async def test_a_page_is_opened_only_when_the_person_says_so(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", lambda url, **_: opened.append(url))
    async with screen(shop) as driven:
        for key, said in (("n", "Declined."), ("y", "Agreed.")):
            await driven.type("elicit url")
            await driven.asked()
            await driven.shows("visit a page", "https://example.com/login", "y Open the page")
            assert opened == []
            await driven.press(key)
            await driven.settled()
            await driven.shows(said)
        assert opened == ["https://example.com/login"]


async def test_a_login_ends_in_the_session_that_was_wanted(shop: Path) -> None:
    locked = Launch(command=sys.executable, args=[str(PEERS / "locked.py")])
    async with screen(shop, locked, is_reached=False) as driven:
        await driven.asked()
        await driven.shows("? The agent wants you to log in", "With a key", "Not now")
        await driven.press("y")
        await driven.shows("ready", "✓ With a key")
        await driven.type("hello")
        await driven.settled()
        await driven.shows("welcome")


async def test_a_login_that_is_put_off_is_said_with_what_to_do(shop: Path) -> None:
    locked = Launch(command=sys.executable, args=[str(PEERS / "locked.py")])
    async with screen(shop, locked, is_reached=False) as driven:
        await driven.asked()
        await driven.press("n")
        await driven.shows("✗ not connected", "^R start the agent again")
        driven.pane.transcript.focus()
        await driven.press("ctrl+r")
        await driven.asked()


async def test_a_login_in_a_terminal_is_the_agents_own_program_in_the_place_of_the_screen(shop: Path) -> None:
    ran: list[list[str]] = []

    async def run_here(command: list[str], environment: dict[str, str]) -> int:
        ran.append([*command[-2:], environment["MODE"]])
        return 1

    locked = Launch(command=sys.executable, args=[str(PEERS / "locked_terminal.py")])
    async with screen(shop, locked, is_reached=False) as driven:
        driven.driver.login.run_here = run_here  # type: ignore[assignment]
        await driven.asked()
        await driven.shows("In a browser: opens one")
        await driven.press("y")
        await driven.shows("the login failed: the agent's own program ended with status 1")
        assert ran == [["--login", "two words", "login"]]


async def test_the_coder_changes_a_file_once_the_person_has_seen_the_change(shop: Path) -> None:
    coder = Launch(command=sys.executable, args=[str(Path(__file__).parent / "peers" / "coding.py")])
    async with screen(shop, coder) as driven:
        await driven.type("The rate is wrong.")
        await driven.asked()
        await driven.shows("I look first.", "? Read a file?", "prices.py", "n Deny")
        await driven.press("s")
        await driven.shows("✓ Allow exactly this in this session")
        await driven.asked()
        await driven.shows("? ", "prices.py", "0.2}", "0.19}", "n Reject")
        assert (shop / "prices.py").read_text() == 'RATES = {"standard": 0.2}\n'
        await driven.press("y")
        await driven.settled()
        await driven.shows("The rate is right now.", "✓ Edit", "✓ Allow once", "Mend the rate", "✎ prices.py")
        assert (shop / "prices.py").read_text() == 'RATES = {"standard": 0.19}\n'

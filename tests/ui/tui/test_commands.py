"""Commands of the person's own: their output, a keyboard for them, and what the agent is given of it."""

from pathlib import Path

from driven import screen

from dragoman.ui.tui.entries.command import CommandCard


async def test_a_command_of_ones_own_shows_its_output_and_how_it_ended(shop: Path) -> None:
    async with screen(shop) as driven:
        await driven.type("!echo by hand; exit 3")
        await driven.shows("✗ !echo by hand; exit 3", "exit 3", "by hand")
        card = driven.app.query_one(CommandCard)
        await driven.press("ctrl+up", "enter")
        assert not card.is_open
        await driven.press("enter")
        await driven.until(lambda: card.is_open)
        assert not driven.model.turns  # the agent has heard nothing of it


async def test_the_output_of_a_command_goes_along_with_the_next_prompt(shop: Path) -> None:
    async with screen(shop) as driven:
        await driven.press("f5")
        await driven.shows("no command of yours has ended here")
        await driven.type("!echo by hand")
        await driven.shows("✓ !echo by hand")
        await driven.press("f5")
        await driven.shows("⧉ 4 lines of text")
        await driven.type("what is this?")
        await driven.settled()
        sent = next(message for message in driven.model.transcript.messages if message.speaker == "user")
        assert sent.text.endswith("I ran this command:\necho by hand\nIt printed (exit status 0):\nby hand\n")


async def test_keys_go_to_a_command_that_runs_and_has_the_focus(shop: Path) -> None:
    async with screen(shop) as driven:
        await driven.type("!read -r name; echo hello $name; sleep 600")
        await driven.shows("▸ !read -r name", "^↑ to type into it")
        await driven.press("ctrl+up", *"Ada", "enter")
        await driven.shows("hello Ada")
        assert driven.pane.composer.text == ""
        await driven.press("ctrl+c")
        await driven.shows("✗ !read")
        await driven.press("x")  # it has ended: a letter is for the input again
        assert driven.pane.composer.text == "x"


async def test_what_a_command_draws_is_kept_to_its_card(shop: Path) -> None:
    async with screen(shop) as driven:
        await driven.type("!printf '\\033[2J\\033[1;1Hup\\033]0;title\\007\\033[31mred\\033[0m [bold]x[/]'")
        await driven.shows("✓ !printf", "upred [bold]x[/]")
        assert driven.lines[0].startswith(" shop")

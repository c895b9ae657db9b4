"""One conversation on the screen, with a real agent process behind it."""

from pathlib import Path

from driven import screen

from dragoman.ui.tui.entries.messages import AgentMessage, ThoughtLine
from dragoman.ui.tui.entries.tool import ToolCard


async def test_a_turn_is_shown_with_words_thoughts_tools_the_plan_and_the_figures(shop: Path) -> None:
    async with screen(shop) as driven:
        assert "Testy · Small · Code" in driven.lines[0]
        await driven.type("message\nthought\ntool\nfailed_tool\nplan\nusage\ntitle")
        await driven.settled()
        await driven.shows("Hello, world.", "▸ thought", "✓ Edit", "+1 −1", "✗ Read", "No such file.")  # noqa: RUF001
        assert "ctx 1%" in driven.lines[0]
        assert "$0.25" in driven.lines[0]
        await driven.shows("Plan", "1/2", "✓ Look", "▸ Leap", "✎ a.py")
        # What is done is folded, what has failed is open.
        edit, read = driven.app.query(ToolCard)
        assert (edit.is_open, read.is_open) == (False, True)
        thought = driven.app.query_one(ThoughtLine)
        await driven.press("ctrl+up", "ctrl+up", "ctrl+up")
        assert thought.has_focus
        await driven.press("enter")
        assert thought.is_open
        await driven.press("ctrl+down", "enter")
        assert edit.is_open
        await driven.shows("│−", "│+")  # noqa: RUF001
        await driven.press("h", "i")  # letters go to the input, wherever the keys are
        assert driven.pane.composer.text == "hi"


async def test_words_that_stream_leave_what_is_above_as_it_is(shop: Path) -> None:
    async with screen(shop) as driven:
        await driven.type("# Title\n\nSome **bold** words.")
        await driven.settled()
        await driven.type("flood 300 20")
        await driven.settled()
        first, *_ = driven.app.query(AgentMessage)
        before = [id(block) for block in first.query("MarkdownBlock")]
        await driven.type("more")
        await driven.settled()
        assert [id(block) for block in first.query("MarkdownBlock")] == before
        await driven.until(lambda: driven.pane.transcript.is_vertical_scroll_end)


async def test_escape_stops_a_turn_and_what_waits_is_kept(shop: Path) -> None:
    async with screen(shop) as driven:
        await driven.type("wait")
        await driven.until(lambda: driven.model.state.kind == "working")
        await driven.type("second")
        await driven.type("third")
        await driven.shows("Queue", "1 second", "2 third")
        await driven.press("escape")
        await driven.settled()
        await driven.shows("■ cancelled", "send what waits (2)")
        await driven.press("escape", "escape")  # which quits nothing
        await driven.press("enter")
        await driven.until(lambda: not driven.model.queue)
        await driven.settled()
        said = [message.text for message in driven.model.transcript.messages if message.speaker == "user"]
        assert said == ["wait", "second", "third"]


async def test_waiting_prompts_are_edited_and_dropped(shop: Path) -> None:
    async with screen(shop) as driven:
        await driven.type("wait")
        await driven.until(lambda: driven.model.state.kind == "working")
        for words in ("second", "third"):
            await driven.type(words)
        await driven.shows("2 third")
        await driven.press("f7")
        await driven.shows("Waiting prompts")
        await driven.press("down", "ctrl+d")
        await driven.gone("2 third")
        await driven.press("f7")
        await driven.shows("Waiting prompts")
        await driven.press("enter")
        await driven.until(lambda: driven.pane.composer.text == "second")
        assert not driven.model.queue


async def test_a_question_takes_the_place_of_the_input_and_no_key_answers_it_too_soon(shop: Path) -> None:
    async with screen(shop) as driven:
        await driven.type("run echo hello")
        await driven.until(lambda: driven.pane.has_class("asks"))
        await driven.press("y")  # typed for the input
        assert driven.model.questions
        assert driven.pane.composer.text == "y"
        await driven.asked()
        await driven.shows("? Run a command?", "echo hello", "y Allow once", "n Deny")
        assert driven.app.focused is driven.pane.questions
        await driven.press("enter", "space")
        await driven.asked()
        await driven.press("y")
        await driven.settled()
        await driven.shows("✓ Allow once", "hello")
        assert driven.app.focused is driven.pane.composer


async def test_a_no_is_shown_where_it_was_given(shop: Path) -> None:
    async with screen(shop) as driven:
        await driven.type("run echo hello")
        await driven.asked()
        await driven.press("n")
        await driven.settled()
        await driven.shows("✗ Deny")


async def test_a_form_is_filled_in_with_the_keyboard(shop: Path) -> None:
    async with screen(shop) as driven:
        await driven.type("elicit form")
        await driven.asked()
        await driven.shows("Who are you?", "Name *", "^S send")
        await driven.press("ctrl+s")
        await driven.shows("Name has to be filled in")
        await driven.press(*"Ada", "tab", *"old", "ctrl+s")
        await driven.shows("age takes a number")
        await driven.press("backspace", "backspace", "backspace", *"36", "ctrl+s")
        await driven.settled()
        await driven.shows('"name": "Ada"', '"age": 36', '"member": false')
        await driven.type("elicit form")
        await driven.asked()
        await driven.press("ctrl+d")
        await driven.settled()
        await driven.shows("Declined.")


async def test_the_model_is_chosen_from_a_list(shop: Path) -> None:
    async with screen(shop) as driven:
        await driven.press("ctrl+o")
        await driven.shows("Large", "Slower")
        await driven.press("l", "a", "r", "enter")
        await driven.until(lambda: "Large" in driven.lines[0])
        await driven.press("shift+tab")
        await driven.until(lambda: "Plan" in driven.lines[0])
        await driven.press("f2")
        await driven.shows("Verbose", "off")
        await driven.press("v", "e", "r", "b", "enter")
        await driven.until(lambda: driven.model.transcript.config_options[-1].current_value is True)


async def test_files_and_commands_are_completed(shop: Path) -> None:
    async with screen(shop) as driven:
        await driven.press(*"look at @prc")
        await driven.shows("src/pricing.py")
        assert "prices.bin" not in driven.text  # Git ignores it
        await driven.press("tab")
        assert driven.pane.composer.text == "look at @src/pricing.py "
        await driven.press("enter")
        await driven.settled()
        sent = next(message for message in driven.model.transcript.messages if message.speaker == "user")
        assert len(sent.content) == 2
        await driven.press(*"/thou")
        await driven.shows("/thought", "Send a thought.")
        await driven.press("tab")
        assert driven.pane.composer.text == "/thought "


async def test_a_command_that_is_written_in_full_is_sent_by_one_enter(shop: Path) -> None:
    async with screen(shop) as driven:
        await driven.type("commands")
        await driven.settled()
        name = next(iter(driven.model.transcript.commands)).name
        await driven.press("/", *name)
        await driven.until(lambda: driven.pane.composer.is_completing)
        await driven.press("enter")
        await driven.settled()
        assert driven.pane.composer.text == ""
        await driven.shows(f"▌  /{name}")


async def test_earlier_prompts_come_back_and_a_line_can_be_broken(shop: Path) -> None:
    async with screen(shop) as driven:
        await driven.type("first")
        await driven.settled()
        await driven.press(*"one", "ctrl+j", *"two")
        assert driven.pane.composer.text == "one\ntwo"
        await driven.press("up", "up")
        assert driven.pane.composer.text == "first"
        await driven.press("down")
        assert driven.pane.composer.text == "one\ntwo"


async def test_an_agent_that_dies_is_said_to_be_gone_and_started_again_on_a_key(shop: Path) -> None:
    async with screen(shop) as driven:
        await driven.type("crash 3")
        await driven.shows("✗ not connected", "start the agent again")
        driven.pane.transcript.focus()
        await driven.press("ctrl+r")
        await driven.shows("ready", "this is a new one")


async def test_on_a_narrow_screen_the_side_panel_is_one_line(shop: Path) -> None:
    async with screen(shop, size=(80, 24)) as driven:
        await driven.type("plan\ntool")
        await driven.settled()
        await driven.shows("plan 1/2 · files 1")
        await driven.press("f6")
        await driven.shows("▸ Leap")


async def test_a_second_conversation_has_a_tab_with_a_mark(shop: Path) -> None:
    async with screen(shop) as driven:
        driven.app.open_tab(driven.driver.options)
        await driven.until(lambda: driven.driver.session is not None)
        await driven.type("run echo hi")
        await driven.asked()
        await driven.press("alt+1")
        await driven.until(lambda: driven.app.panes.index(driven.pane) == 0)
        await driven.until(lambda: "?" in driven.lines[0])
        await driven.press("alt+2", "n")
        await driven.asked()
        await driven.press("n")
        await driven.settled()

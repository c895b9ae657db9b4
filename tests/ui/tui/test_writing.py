"""The input: what goes along with the words, what the person looks up, and what else keys do."""

import sys
from pathlib import Path

import pytest
from driven import Driven, screen
from recorded import recorded
from test_shown import RED
from textual.binding import Binding
from textual.events import AppBlur, AppFocus, Paste
from views import began

from dragoman import schema as s
from dragoman.host.processes import Launch
from dragoman.ui.model.intents import CancelTurn
from dragoman.ui.tui.app import DragomanApp
from dragoman.ui.tui.layout import TuiSettings
from dragoman.ui.tui.theme import DARK, LIGHT, TERMINAL, TERMINAL_LIGHT, theme_for
from dragoman.ui.tui.writing.composer import PromptEditor
from dragoman.ui.tui.writing.files import FileIndex

PEERS = Path(__file__).parent / "peers"


def given(driven: Driven) -> list[s.ContentBlock]:
    """The blocks of the last prompt."""
    prompts = [each for each in driven.model.transcript.messages if each.speaker == "user"]
    return list(prompts[-1].content)


async def test_a_long_paste_is_a_chip_that_goes_along_or_is_taken_off(shop: Path) -> None:
    async with screen(shop) as driven:
        long = "\n".join(f"line {number}" for number in range(40))
        for _ in range(2):
            driven.pane.composer.post_message(Paste(long))
        driven.pane.composer.post_message(Paste("short\r\nwords"))
        await driven.shows("⧉ 40 lines of text   ⧉ 40 lines of text   ^X takes the last one off")
        assert driven.pane.composer.text == "short\nwords"
        await driven.press("ctrl+x")
        await driven.until(lambda: driven.text.count("⧉ 40 lines") == 1)
        await driven.press("enter")
        await driven.settled()
        assert [block.text for block in given(driven) if isinstance(block, s.TextContent)] == [
            f"short\nwords\n\n{long}"
        ]
        assert "⧉ 40 lines of text   ^X" not in driven.text


async def test_files_that_are_dragged_in_go_along_as_pictures_or_text(shop: Path) -> None:
    (shop / "red one.png").write_bytes(RED)
    async with screen(shop) as driven:
        dragged = f"'{shop}/red one.png' file://{shop}/prices.py"
        driven.pane.composer.post_message(Paste(dragged))
        await driven.shows("⧉ image/png 0 KiB", "⧉ prices.py")
        assert driven.pane.composer.text == ""
        await driven.type("look")
        await driven.settled()
        kinds = [type(block) for block in given(driven)]
        assert kinds == [s.TextContent, s.ImageContent, s.EmbeddedResource]


async def test_the_picture_that_was_copied_goes_along(
    shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs, clipboard = tmp_path / "bin", tmp_path / "clipboard"
    programs.mkdir()
    (programs / "wl-paste").write_text(f"#!/bin/sh\nexec cat {clipboard}\n")
    (programs / "wl-paste").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    monkeypatch.setenv("WAYLAND_DISPLAY", "wayland-0")
    monkeypatch.delenv("DISPLAY", raising=False)
    async with screen(shop) as driven:
        await driven.press("f10")
        await driven.shows("no picture is copied here")
        clipboard.write_bytes(RED)
        await driven.press("f10")
        await driven.shows("⧉ image/png 0 KiB")
        await driven.type("what is this?")
        await driven.settled()
        assert isinstance(given(driven)[1], s.ImageContent)


async def test_what_is_copied_goes_to_the_persons_clipboard(shop: Path) -> None:
    async with screen(shop) as driven:
        await driven.type("echo some words")
        await driven.settled()
        await driven.press("ctrl+y")
        await driven.shows("the last message is copied")
        assert driven.app.clipboard == "some words"
        await driven.press("ctrl+c")
        await driven.shows("^Q quits; esc stops the turn")


async def test_an_earlier_prompt_is_found_by_its_words(shop: Path) -> None:
    async with screen(shop) as driven:
        for words in ("echo apples", "echo pears", "echo nuts"):
            await driven.type(words)
            await driven.settled()
        await driven.press("ctrl+r")
        await driven.shows("Earlier prompts")
        await driven.press(*"pear", "enter")
        await driven.until(lambda: driven.pane.composer.text == "echo pears")
    async with screen(shop, is_reached=False) as driven:  # and so the next day
        await driven.until(lambda: driven.app.focused is driven.pane.composer)
        await driven.press("up")
        assert driven.pane.composer.text == "echo nuts"


async def test_a_prompt_is_sent_into_the_turn_that_runs_where_the_agent_takes_it(shop: Path) -> None:
    steered = Launch(command=sys.executable, args=[str(PEERS / "steered.py")])
    async with screen(shop, steered) as driven:
        await driven.type("begin")
        await driven.shows("Waiting.", "⌥⏎ steer")
        driven.pane.composer.write("faster")
        await driven.press("alt+enter")
        await driven.settled()
        await driven.shows("Steered: faster")
        assert not driven.model.queue


async def test_without_steering_such_a_prompt_waits_like_any_other(shop: Path) -> None:
    async with screen(shop) as driven:
        await driven.type("wait")
        await driven.until(lambda: driven.model.state.kind == "working")
        assert "steer" not in driven.lines[-1]
        driven.pane.composer.write("later")
        await driven.press("alt+enter")
        await driven.shows("1 later")
        await driven.press("escape")
        await driven.settled()


async def test_a_backslash_before_enter_breaks_the_line_and_a_question_mark_shows_every_key(shop: Path) -> None:
    async with recorded(shop) as driven:
        driven.driver.tell(began(str(shop)))
        await driven.press(*"one\\", "enter", *"two")
        assert driven.pane.composer.text == "one\ntwo"
        driven.pane.composer.write("")
        await driven.press("?")
        await driven.shows("Writing", "Reading", "send; while the agent works")
        await driven.press("escape")
        await driven.gone("Reading")


async def test_keys_and_colours_are_the_persons_own(shop: Path, home: Path) -> None:
    place = home / "config" / "dragoman" / "tui.toml"
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text('theme = "dragoman-light"\n[keys]\nhelp = "ctrl+h"\n')
    settings = TuiSettings.load()
    async with screen(shop, keys=settings.keys, theme=settings.theme, is_reached=False) as driven:
        assert not driven.app.current_theme.dark
        await driven.press("f1")
        assert "Writing" not in driven.text
        await driven.press("ctrl+h")
        await driven.shows("Writing")
    place.write_text('colour = "red"\n')
    with pytest.raises(Exception, match=r"cannot read .*tui.toml: .*colour"):
        TuiSettings.load()


async def test_other_colours_are_a_command_of_the_palette(shop: Path) -> None:
    async with recorded(shop) as driven:
        for words, dark in (("Colours: light", False), ("Colours: dark", True)):
            await driven.press("ctrl+p")
            await driven.until(lambda: "CommandPalette" in type(driven.app.screen).__name__)
            await driven.press(*words)
            await driven.shows("The theme dragoman-")
            await driven.press("enter")
            await driven.until(lambda dark=dark: driven.app.current_theme.dark is dark)
            await driven.until(lambda: "CommandPalette" not in type(driven.app.screen).__name__)


@pytest.mark.parametrize(
    ("wanted", "on_dark", "on_light"),
    [
        ("terminal", TERMINAL, TERMINAL_LIGHT),
        ("dragoman", DARK, LIGHT),
        ("dragoman-dark", DARK, DARK),
        ("dragoman-light", LIGHT, LIGHT),
    ],
)
def test_a_theme_goes_by_the_background_unless_the_person_has_decided(
    wanted: str, on_dark: str, on_light: str
) -> None:
    assert [theme_for(wanted, is_light=is_light) for is_light in (False, True)] == [on_dark, on_light]


async def test_whoever_looks_elsewhere_is_called_when_the_agent_asks_and_when_it_is_done(
    shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with screen(shop) as driven:
        rung, written = list[str](), list[str]()
        monkeypatch.setattr(driven.app, "bell", lambda: rung.append("bell"))
        monkeypatch.setattr(driven.app._driver, "write", written.append)
        await driven.type("run echo hi")
        await driven.asked()
        assert rung == []  # they are looking
        await driven.press("n")
        await driven.settled()
        driven.app.post_message(AppBlur())
        await driven.type("run echo hi")
        await driven.asked()
        assert (len(rung), written) == (1, ["\x1b]9;testy: asks you\x07"])
        await driven.press("n")
        await driven.settled()
        await driven.until(lambda: len(rung) == 2)
        assert written[1] == "\x1b]9;testy: is done\x07"
        driven.app.post_message(AppFocus())
        await driven.type("echo hi")
        await driven.settled()
        assert len(rung) == 2


async def test_an_agent_that_is_not_installed_is_listed_with_how_to_install_it(shop: Path, home: Path) -> None:
    settings = home / "config" / "dragoman"
    settings.mkdir(parents=True, exist_ok=True)
    here = 'title = "Here"\ncommand = "sh"\n'
    away = 'title = "Away"\ncommand = "no-such-program-anywhere"\ninstall = "make away"\n'
    team = 'title = "Of the team"\nurl = "wss://gateway.example/coder"\n'
    (settings / "agents.toml").write_text(f"[here]\n{here}[away]\n{away}[team]\n{team}[odd]\ntitle = 1\n")
    async with screen(shop) as driven:
        await driven.press("ctrl+n")
        await driven.shows("Installed", "Elsewhere", "wss://gateway.example/coder", "Not installed")
        await driven.press(*"odd")
        await driven.shows("agents.toml")
        await driven.press(*["backspace"] * 3)
        await driven.press(*"away", "enter")
        await driven.shows("away: not installed; to install it: make away")
        assert len(driven.app.panes) == 1


async def test_tabs_are_closed_and_chosen_from_a_list(shop: Path) -> None:
    async with screen(shop) as driven:
        await driven.type("title First")
        await driven.settled()
        driven.app.open_tab(driven.driver.options)
        await driven.until(lambda: driven.driver.session is not None)
        await driven.press("ctrl+t")
        await driven.shows("Conversations", "First", "New …")
        await driven.press("escape")
        # Each tab has a mark for how it stands, and for what the person has not seen.
        await driven.type("wait")
        await driven.press("alt+1")
        await driven.until(lambda: "●" in driven.lines[0])
        driven.app.panes[1].driver.carry_out(CancelTurn())
        await driven.until(lambda: "✓" in driven.lines[0])
        await driven.press("alt+2")
        await driven.until(lambda: "✓" not in driven.lines[0])
        await driven.press("ctrl+t")
        await driven.shows("Conversations", "First")
        await driven.press(*"first", "enter")
        await driven.until(lambda: driven.pane is driven.app.panes[0])
        await driven.press("alt+2", "f4")
        await driven.until(lambda: len(driven.app.panes) == 1)
        await driven.shows("First")
        await driven.press("f4")  # the last one stays
        assert len(driven.app.panes) == 1


async def test_files_are_narrowed_down_with_every_letter_and_the_best_come_first(tmp_path: Path) -> None:
    index = FileIndex(str(tmp_path))
    index.paths = [f"src/part_{number}/module_{number}.py" for number in range(100_000)] + ["src/prices.py"]
    index._looked_at = float("inf")
    for typed in ("p", "pr", "prices"):
        found = await index.find(typed)
    assert found[0] == "src/prices.py"
    assert (await index.find("module_99999"))[0] == "src/part_99999/module_99999.py"


def test_every_key_is_in_the_documentation_and_has_a_name_to_set_it_by() -> None:
    page = (Path(__file__).parents[3] / "docs" / "programs" / "tui.md").read_text()
    bindings = [each for each in DragomanApp.BINDINGS if isinstance(each, Binding)]
    keys = [each.key for each in bindings if each.id] + [*PromptEditor.KEYS]
    written = {key: "-".join(part.capitalize() for part in key.split("+")) for key in keys if key != "tab"}
    assert [key for key, words in written.items() if f" {words}" not in page and f"| {words}" not in page] == []
    assert [each.id for each in bindings if each.id and f"`{each.id}`" not in page] == []

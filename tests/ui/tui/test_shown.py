"""What is shown of a conversation, from recorded ones: words, tools, changes, terminals, pictures, figures."""

import base64
import struct
import zlib
from pathlib import Path

import pytest
from driven import Driven, screen
from recorded import draw, recorded
from views import NEW, OLD, VIEWS, began, done, says, told, tool

from dragoman import schema as s
from dragoman.ui.model import events as e
from dragoman.ui.tui.entries.diff import DiffView, _pieces, rows_of
from dragoman.ui.tui.entries.graphics import drawing
from dragoman.ui.tui.entries.png import pixels_of
from dragoman.ui.tui.entries.tool import ToolCard

NAMED = {view.name: view for view in VIEWS}


def styles_of(driven: Driven, words: str) -> set[str]:
    """How words look that stand on the screen once."""
    found = set()
    for strip in driven.app.screen._compositor.render_strips():
        for segment in strip:
            if words in segment.text and segment.style:
                found.add(str(segment.style))
    return found


async def test_code_has_the_colours_of_its_syntax(shop: Path) -> None:
    async with recorded(shop) as driven:
        await draw(driven, NAMED["markdown"])
        (keyword,), (name,), (comment,) = (styles_of(driven, words) for words in ("def", "total", "# one rate"))
        assert len({keyword, name, comment}) == 3


async def test_a_change_is_shown_side_by_side_where_there_is_room_or_where_one_wants_it(shop: Path) -> None:
    async with recorded(shop) as driven:
        driven.driver.tell(began(str(shop)))
        change = s.Diff(path=f"{shop}/prices.py", old_text=OLD, new_text=NEW)
        driven.driver.tell(tool("c1", "edit", "Edit prices.py", 1.0, content=[change]))
        await driven.shows("prices.py")
        view = driven.app.query_one(DiffView)

        def is_split() -> bool:
            return any(driven.text.count("RATES = {") == 2 for _ in "x")

        assert not is_split()
        await driven.press("f8", "f8")
        await driven.shows("changes are shown: split")
        await driven.until(is_split)
        (line,) = [line for line in driven.lines if "standard" in line and "0.2," in line]
        assert "│ 4 +" in line  # both sides in one line
        await driven.press("f8")
        await driven.until(lambda: not is_split())
        await driven.pilot.resize_terminal(200, 40)
        await driven.until(is_split)
        # The words that differ are marked, and others are not.
        strips = [view.render_line(y) for y in range(view.size.height)]
        marked = "".join(each.text for strip in strips for each in strip if each.style and each.style.underline)
        assert '"standard"' in marked and "reduced" not in marked


CHANGES = {
    "a letter": ("one\n", "ome\n"),
    "upper case": ("one\n", "One\n"),
    "a blank at the end": ("one\n", "one \n"),
    "a blank at the end, beside a new line": ("one\n", "one \ntwo\n"),
    "a tab in the place of blanks": ("    one\n", "\tone\n"),
    "a tab in the place of blanks, beside a new line": ("    one\n", "\tone\ntwo\n"),
    "a tab at the end": ("one\n", "one\t\n"),
    "more blanks between": ("a b\n", "a  b\n"),
    "indentation": ("one\n", "  one\n"),
    "the end of lines": ("one\r\n", "one\n"),
    "the end of the last line": ("one", "one\n"),
    "no end of the last line": ("one\n", "one"),
    "an empty line": ("one\ntwo\n", "one\n\ntwo\n"),
    "an empty line at the end": ("one\n", "one\n\n"),
    "a line with blanks alone": ("one\n\n", "one\n   \n"),
    "a blank that does not break": ("a b\n", "a\u00a0b\n"),
    "a blank of another width, beside a new line": ("a b\n", "a\u2003b\ntwo\n"),
    "a mark of byte order": ("one\n", "\ufeffone\n"),
    "a letter of no width": ("one\n", "o\u200bne\n"),
    "another direction": ("one\n", "o\u202ene\n"),
    "a letter that looks alike": ("apple\n", "\u0430pple\n"),
    "an accent written otherwise": ("é\n", "e\u0301\n"),
    "a control character": ("one\n", "one\x07\n"),
    "a zero byte": ("one\n", "o\0ne\n"),
    "a page break": ("one\n", "\x0cone\n"),
    "a separator of lines": ("a b\n", "a\u2028b\n"),
    "a letter far out in a long line": ("x" * 5000 + "\n", "x" * 2500 + "y" + "x" * 2499 + "\n"),
    "all of it": ("one\ntwo\n", ""),
    "a new file": (None, "one\n"),
}


@pytest.mark.parametrize("columns", [80, 200])
@pytest.mark.parametrize("kind", CHANGES)
def test_every_kind_of_change_is_seen(kind: str, columns: int) -> None:
    old, new = CHANGES[kind]
    rows = rows_of(s.Diff(path="a", old_text=old, new_text=new or ""))
    assert rows
    gone, come = ([row for row in rows if row.sign == sign] for sign in "-+")
    notes = [row for row in rows if row.sign == "~"]
    drawn = [[piece.plain for row in side for _, piece in _pieces(row, columns)] for side in (gone, come)]
    assert notes if drawn[0] == drawn[1] else drawn
    view = DiffView(rows)
    shown = view._content(columns).plain
    assert not {sign for sign in shown if sign != "\n" and not sign.isprintable() and sign != "\u3000"}


async def test_a_tool_card_opens_to_its_input_its_output_and_what_it_says(shop: Path) -> None:
    async with recorded(shop) as driven:
        driven.driver.tell(began(str(shop)))
        here = [s.ToolCallLocation(path=f"{shop}/prices.py", line=7)]
        driven.driver.tell(
            tool("c1", "fetch", "the rates", 1.0, locations=here, raw_input={"url": "https://rates.example"})
        )
        said = "\n".join(f"rate {number}" for number in range(30))
        driven.driver.tell(
            done("c1", 4.5, content=[s.Content(content=s.TextContent(text=said))], raw_output={"rows": 30})
        )
        await driven.shows("✓ Fetch  the rates  prices.py:7", "3.5 s")
        assert "rate 3" not in driven.text
        await driven.press("ctrl+up", "enter")
        await driven.shows("rate 29", "input", "https://rates.example", "output", '"rows": 30')
        await driven.press("enter")
        await driven.gone("rate 3")


async def test_what_fails_stays_open_and_is_cut_until_one_wants_it_all(shop: Path) -> None:
    async with recorded(shop) as driven:
        driven.driver.tell(began(str(shop)))
        said = "\n".join(f"line {number}" for number in range(30))
        driven.driver.tell(
            tool("c1", "execute", "make", 1.0, content=[s.Content(content=s.TextContent(text=said))])
        )
        driven.driver.tell(done("c1", 2.0, "failed"))
        await driven.shows("✗ Run    make", "failed", "line 11", "… 18 more lines")
        assert driven.app.query_one(ToolCard).is_open


async def test_a_terminal_has_its_colours_and_obeys_the_cursor_while_its_command_runs(shop: Path) -> None:
    async with recorded(shop) as driven:
        driven.driver.tell(began(str(shop)))
        driven.driver.tell(tool("c1", "execute", "make", 1.0, content=[s.Terminal(terminal_id="t1")]))
        driven.driver.tell(e.TerminalBegan(id="t1", command="make", at=1.0))
        driven.driver.tell(e.TerminalPrinted(id="t1", text="\x1b[31mred\x1b[0m\n 10 %"))
        await driven.shows("10 %")
        (red,) = styles_of(driven, "red")
        driven.driver.tell(e.TerminalPrinted(id="t1", text="\r 99 %"))
        await driven.shows("99 %")
        assert "10 %" not in driven.text
        assert red != next(iter(styles_of(driven, "99 %")))


async def test_how_full_the_context_is_and_the_cost_are_told_and_a_full_one_in_another_colour(shop: Path) -> None:
    async with recorded(shop) as driven:
        driven.driver.tell(began(str(shop)))
        cost = s.Cost(amount=0.5, currency="EUR")
        driven.driver.tell(told(s.UsageUpdate(used=50, size=100, cost=cost)))
        await driven.shows("ctx 50%", "€0.50")
        (before,) = styles_of(driven, "ctx")
        driven.driver.tell(told(s.UsageUpdate(used=90, size=100, cost=cost)))
        await driven.shows("ctx 90%")
        assert styles_of(driven, "ctx") != {before}


async def test_one_follows_the_agent_to_the_file_and_the_line_it_is_at(shop: Path) -> None:
    async with recorded(shop) as driven:
        driven.driver.tell(began(str(shop)))
        await driven.press("f9")
        await driven.shows("the agent has not said yet at which file it is")
        here = [s.ToolCallLocation(path=f"{shop}/src/pricing.py", line=2)]
        driven.driver.tell(tool("c1", "read", "pricing", 1.0, locations=here))
        await driven.shows("→ src/pricing.py:2", "     1 │ def total()", "▸     2 │     return 1")
        gone = [s.ToolCallLocation(path=f"{shop}/gone.py")]
        driven.driver.tell(tool("c2", "read", "gone", 2.0, locations=gone))
        await driven.shows("→ gone.py:1", "it cannot be shown: No such file")
        await driven.press("f9")
        await driven.gone("→ gone.py")


# Pictures


def png(width: int, height: int, kind: int, row: bytes, *, palette: bytes = b"", filters: bytes = b"\0") -> bytes:
    """A picture whose rows are all alike before they are filtered."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    raw = b"".join(filters[at % len(filters) :][:1] + row for at in range(height))
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0))
    parts = chunk(b"PLTE", palette) if palette else b""
    return b"\x89PNG\r\n\x1a\n" + head + parts + chunk(b"IDAT", zlib.compress(raw)) + chunk(b"IEND", b"")


def picture(data: bytes, kind: str = "image/png") -> s.ImageContent:
    return s.ImageContent(data=base64.b64encode(data).decode(), mime_type=kind)


RED = png(4, 2, 2, b"\xff\0\0" * 4)


@pytest.mark.parametrize(
    ("data", "pixel"),
    [
        (RED, (255, 0, 0)),
        (png(2, 2, 0, b"\x80\x80"), (128, 128, 128)),
        (png(2, 2, 3, b"\1\1", palette=b"\0\0\0\1\2\3"), (1, 2, 3)),
        (png(2, 2, 4, b"\0\0" * 2), (255, 255, 255)),
        (png(2, 2, 6, b"\0\0\0\xff" * 2), (0, 0, 0)),
        (png(3, 1, 2, b"\x10\x20\x30" + b"\0" * 6, filters=b"\1"), (16, 32, 48)),
        (png(1, 1, 2, b"\x10\x20\x30", filters=b"\2"), (16, 32, 48)),
        (png(2, 1, 0, b"\x40\x20", filters=b"\3"), (64, 64, 64)),
        (png(2, 1, 0, b"\x40\x00", filters=b"\4"), (64, 64, 64)),
    ],
)
def test_pictures_of_every_usual_kind_are_read(data: bytes, pixel: tuple[int, int, int]) -> None:
    pixels = pixels_of(data)
    assert pixels is not None
    assert {each for row in pixels.rows for each in row} == {pixel}


def test_what_is_no_picture_or_too_large_a_one_is_not_read() -> None:
    huge = png(60_000, 60_000, 2, b"")
    for data in (b"", RED[:40], RED[:-30], b"GIF89a", huge, png(2, 2, 9, b"\0\0")):
        assert pixels_of(data) is None


def test_a_picture_is_drawn_in_the_sequences_of_each_terminal() -> None:
    kitty, iterm2, sixel = (drawing(picture(RED), graphics) for graphics in ("kitty", "iterm2", "sixel"))
    encoded = base64.b64encode(RED)
    assert kitty == b"\x1b_Ga=T,f=100,q=2,m=0;" + encoded + b"\x1b\\"
    assert (
        iterm2 is not None and iterm2.startswith(b"\x1b]1337;File=inline=1;") and iterm2.endswith(encoded + b"\x07")
    )
    assert sixel == b'\x1bP0;1q"1;1;4;2#180;2;100;0;0#180!4B\x1b\\'
    long = drawing(picture(RED + b"\0" * 9000), "kitty")
    assert long is not None and long.count(b"\x1b_G") == 3 and long.count(b"m=1;") == 2


def test_nothing_but_a_picture_is_ever_drawn() -> None:
    hostile = s.ImageContent(data="\x1b]52;c;aGFja2Vk\x07", mime_type="image/png")
    sound = s.AudioContent(data="AAAA", mime_type="audio/wav")
    assert [drawing(block, "kitty") for block in (hostile, sound, picture(b"GIF89a", "image/gif"))] == [None] * 3
    assert drawing(picture(RED), "") is None
    assert drawing(picture(RED, "image/svg+xml"), "iterm2") is None


async def test_a_picture_is_a_line_that_opens_it_in_the_persons_viewer(
    shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", lambda url: opened.append(url) or True)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    async with recorded(shop) as driven:
        driven.driver.tell(began(str(shop)))
        driven.driver.tell(says("Look:"))
        driven.driver.tell(told(s.AgentMessageChunk(content=picture(RED), message_id="m1")))
        await driven.shows(f"⧉ image/png  {len(base64.b64encode(RED)) * 3 // 4} bytes")
        for variables in ({"DISPLAY": ""}, {"DISPLAY": ":0"}):
            for name, value in variables.items():
                monkeypatch.setenv(name, value)
            await driven.press("ctrl+up", "enter")
            await driven.shows("opened:" if variables["DISPLAY"] else "there is no viewer here; the file is")
            driven.pane.focus_input()
        (url,) = opened
        assert Path(url.removeprefix("file://")).read_bytes() == RED
    assert not Path(url.removeprefix("file://")).exists()  # it goes with the screen


async def test_testy_shows_everything_there_is_and_nothing_of_it_is_lost(shop: Path) -> None:
    async with screen(shop, size=(120, 120)) as driven:
        await driven.type("everything unknown")
        await driven.settled()
        kinds = {type(entry).__name__ for entry in driven.model.entries}
        assert {"Message", "ToolCallEntry", "Compaction", "Subagent", "SessionNote", "Notice", "Unknown"} <= kinds
        await driven.shows("an update of a kind this version does not know", "Agent  ", "✉ ")

"""Whatever an agent says is plain text: no markup of the toolkit, no sequence of a terminal, nothing hidden."""

from collections.abc import Sequence
from pathlib import Path

from driven import Driven, screen
from recorded import recorded
from textual.events import Paste
from views import began, tool

from dragoman import schema as s
from dragoman.ui.legible import legible
from dragoman.ui.model import events as e
from dragoman.ui.model.parts import Link, Participant, PendingQuestion, QuestionChoice, WaitingPrompt
from dragoman.ui.tui.entries.folding import Folded
from dragoman.ui.tui.plain_input import PlainInput
from dragoman.ui.tui.words import line, shown

CONTROLS = [chr(code) for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\n\t"]
UNSEEN = [
    *map(chr, (*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x061C, 0x200E, 0x200F)),  # directions
    *map(chr, (0x200B, 0x200C, 0x200D, 0x2060, 0xFEFF, 0x00AD, 0x180E)),  # of no width
    *map(chr, (0x115F, 0x1160, 0x3164, 0xFFA0, 0xE000, 0xF8FF, 0x2028, 0x2029)),  # fillers, private use, separators
    *map(chr, (0xFE00, 0xFE0F, 0xE0100, 0xE0001, 0xE0041, 0xE007F)),  # variations, tags
]
SEQUENCES = [
    "\x1b]52;c;aGFja2Vk\x07",
    "\x1b]52;p;?\x1b\\",
    "\x1b]8;;https://evil.example\x1b\\link\x1b]8;;\x1b\\",
    "\x1b]8;id=1;file:///etc/passwd\x07",
    *(f"\x1b]{code};words\x07" for code in (0, 1, 2, 4, 7, 9, 10, 11, 12, 99, 104, 112, 133, 633, 777, 1337)),
    *(
        f"\x1b[{order}"
        for order in ("2J", "H", "3J", "1;1H", "A", "99B", "C", "D", "K", "1K", "L", "M", "P", "S", "T", "X")
    ),
    *(
        f"\x1b[{order}"
        for order in ("31m", "7m", "8m", "38;5;1m", "48;2;1;2;3m", "0m", "6n", "c", ">c", "5i", "21t", "r")
    ),
    *(
        f"\x1b[?{mode}{sign}"
        for mode in (1, 3, 5, 7, 12, 25, 47, 1000, 1003, 1004, 1006, 1049, 2004, 2026)
        for sign in "hl"
    ),
    *(
        f"\x1b{order}"
        for order in ("7", "8", "c", "D", "E", "H", "M", "N", "O", "Z", "=", ">", "(0", "#8", "%G", " F")
    ),
    "\x1bP1$tx\x1b\\",
    "\x1bP+q544e\x1b\\",
    "\x1bPq#0;2;0;0;0~\x1b\\",
    "\x1b_Gf=32;AAAA\x1b\\",
    "\x1bXsos\x1b\\",
    "\x1b^pm\x1b\\",
    "\x9b31m",
    "\x9d52;c;aGFja2Vk\x9c",
    "\x90q\x9c",
    "\x1b",
    "\x1b[",
    "\x1b]52;c;",
]
MARKUP = [
    "[bold red]markup[/]",
    "[@click=app.quit]quit[/]",
    "[@click='app.bell']ring[/]",
    "[link=https://evil.example]safe[/link]",
    "[link='https://evil.example']safe[/]",
    "[/]",
    "[/bold]",
    "[",
    "]",
    "[[",
    "\\[bold]",
    "[$error on $success]",
    "[on red]",
    "[red on]",
    "[not bold]",
    "[reverse]r[/reverse]",
    "[#ff0000]",
    "[rgb(1,2,3)]",
    "[ansi_red]",
    "[b][i][u][s]",
    "[blink]",
    "[auto]",
    "[:smile:]",
    ":skull:",
    "{{ template }}",
    "%s %(x)s {0} {self}",
    "$HOME `id` $(id)",
    "<script>alert(1)</script>",
    "<b>&amp;</b>",
    "&lt;&#27;[2J",
]
SPOILED = [
    "a\rb",
    "a\x08b",
    "safe\u202eevil",
    "\u2066iso\u2069",
    "zero\u200bwidth",
    "e" + "\u0301" * 40,
    "\u0301alone",
    "\u20dd",
    "日本語😀👩\u200d👩\u200d👧",
    "🇩🇪🏴\U000e0067\U000e007f",
    "ﷺ﷽",
    "\ud7ff\uffff\ufffe",
    "a" + " " * 40 + "hidden",
    "name.txt\u00a0\u2003.exe",
    "\u0430pple",
    "x\x00y",
]
SPOILED += [f"rm -rf /{unseen}tmp" for unseen in UNSEEN] + [f"{control}ok" for control in CONTROLS[:31]]
SHORT = [*dict.fromkeys([*CONTROLS, *UNSEEN, *SEQUENCES, *MARKUP, *SPOILED])]
LONG = ["W" * 20_000, "line\n" * 10_000, "\x1b[31m[bold]" * 2000, "e" + "\u0301" * 5000]
NEVER = {*CONTROLS, *UNSEEN} - {"\u200c", "\u200d", "\ufe0f"}  # which join letters and pictures
AT_ONCE = 150
SIZE = (100, 80)

# Written about Markdown alone.
MARKDOWN = [
    "![image](https://evil.example/x.png)",
    "[here](javascript:alert(1))",
    "[here](file:///etc/passwd)",
    "<https://evil.example>",
    "[a]: https://evil.example",
    "```\nnever ends",
    "| a |\n|---|\n| [bold]x[/] |",
    "# [@click=app.quit]title[/]",
]


class Fields:
    """Gives every field some of the texts; each field begins with others, since not all have room for many."""

    def __init__(self, texts: Sequence[str], between: str = " ") -> None:
        self._texts, self._between, self._at = texts, between, 0

    def next(self) -> str:
        self._at += 3
        at = self._at % len(self._texts)
        return self._between.join([*self._texts[at:], *self._texts[:at]]) or " "


def everywhere(texts: Sequence[str]) -> list[e.ModelEvent]:
    """Events with texts in each field that a person is shown."""
    fields = Fields(texts)
    text = fields.next

    def block() -> s.TextContent:
        return s.TextContent(text=text())

    option = s.SessionConfigSelect(
        id="o",
        name=text(),
        category="model",
        current_value="v",
        options=[s.SessionConfigSelectOption(value="v", name=text(), description=text())],
    )
    call = s.ToolCall(
        tool_call_id="c",
        title=text(),
        name=text(),
        kind="execute",
        status="failed",
        content=[
            s.Content(content=block()),
            s.Content(content=s.ResourceLink(name=text(), uri=text())),
            s.Content(content=s.EmbeddedResource(resource=s.TextResourceContents(uri=text(), text=text()))),
            s.Content(content=s.ImageContent(data=text(), mime_type=text(), uri=text())),
            s.Diff(path=text(), old_text=f"{text()}\nold", new_text=f"{text()}\nnew"),
            s.Terminal(terminal_id="t"),
        ],
        locations=[s.ToolCallLocation(path=text(), line=1)],
        raw_input={text(): text()},
        raw_output=text(),
    )
    updates: list[s.SessionUpdate] = [
        s.UserMessageChunk(content=block()),
        s.AgentMessageChunk(content=block()),
        s.AgentThoughtChunk(content=block()),
        s.Plan(entries=[s.PlanEntry(content=text(), priority="high", status="in_progress")]),
        s.AvailableCommandsUpdate(
            available_commands=[
                s.AvailableCommand(name=text(), description=text(), input=s.UnstructuredCommandInput(hint=text()))
            ]
        ),
        s.SessionInfoUpdate(title=text()),
        s.UsageUpdate(used=1, size=2, cost=s.Cost(amount=1.0, currency=text())),
        s.Notice(severity=text(), title=text(), description=text()),
        s.CompactionUpdate(compaction_id="k", status=text(), error=text()),
        s.SubagentUpdate(session_id="x", title=text(), description=text()),
        s.SessionMessage(message_id="n", sender_session_id=text(), recipient_session_id=text(), content=[block()]),
        s.ConfigOptionUpdate(config_options=[option]),
        s.CurrentModeUpdate(current_mode_id=text()),
    ]
    question = PendingQuestion(
        id="q",
        kind="permission",
        title=text(),
        text=text(),
        warnings=(text(),),
        detail=f"@@ -1,1 +1,1 @@\n-{text()}\n+{text()}",
        choices=(QuestionChoice(id="y", label=text(), allows=True), QuestionChoice(id="n", label=text())),
        url=text(),
        form=s.ElicitationSchema(
            properties={
                "a": s.StringPropertySchema(title=text(), description=text(), default=text()),
                "b": s.StringPropertySchema(title=text(), enum=[text(), "other"]),
            }
        ),
    )
    return [
        e.TerminalBegan(id="t", command=text()),
        e.TerminalPrinted(id="t", text=text()),
        e.TerminalBegan(id="mine", command=text(), is_mine=True),
        e.TerminalPrinted(id="mine", text=text()),
        *(e.UpdateTold(update=update) for update in updates),
        e.UpdateTold(update=call),
        e.PeopleTold(people=[Participant(name=text(), role=text())]),
        e.PromptWaits(prompt=WaitingPrompt(id="w", prompt=[block()], author=text())),
        e.DecisionTold(title=text(), allowed=False, why=text()),
        e.PromptGiven(id="p", prompt=[block()]),
        e.TurnOver(id="p", error=text()),
        e.LinkTold(link=Link(kind="lost", why=text())),
        e.QuestionPut(question=question),
    ]


def checked(driven: Driven, texts: Sequence[str]) -> None:
    """Nothing on the screen acts or hides, and no markup has become a style."""
    segments = [segment for strip in driven.app.screen._compositor.render_strips() for segment in strip]
    assert not {sign for segment in segments for sign in segment.text} & NEVER, texts
    styles = [segment.style for segment in segments if segment.style]
    assert not [style.link for style in styles if style.link], texts
    clicks = {style.meta["@click"] for style in styles if "@click" in style.meta}
    assert all(click.startswith("link(") for click in clicks), clicks  # of Markdown; nothing comes of it
    strips = driven.app.screen._compositor.render_strips()
    assert [strip.cell_length for strip in strips] == [SIZE[0]] * SIZE[1], texts


def test_there_are_more_than_three_hundred_of_them_and_each_is_written_out() -> None:
    assert len({*SHORT, *LONG, *MARKDOWN}) > 300
    for text in (*SHORT, *LONG, *MARKDOWN):
        for content in (shown(text), line(text), line(text, 40)):
            assert not set(content.plain) & NEVER
            assert not [span for span in content.spans if span.style]


async def test_hostile_texts_in_every_field_are_shown_as_plain_text_and_act_on_nothing(shop: Path) -> None:
    groups = [SHORT[at : at + AT_ONCE] for at in range(0, len(SHORT), AT_ONCE)]
    async with recorded(shop, size=SIZE) as driven:
        for number, group in enumerate([*groups, *([text] for text in LONG), MARKDOWN]):
            for event in everywhere(group):
                driven.driver.tell(event)
            await driven.until(lambda: not driven.pane.is_behind)
            checked(driven, group)
            driven.driver.tell(e.QuestionOver(id="q", answer=group[0]))
            for folded in driven.pane.transcript.foldable():
                if isinstance(folded, Folded):
                    folded.action_open_or_fold()
            await driven.until(lambda: not driven.pane.is_behind)
            checked(driven, group)
            driven.driver.tell(e.SessionBegan(id=f"s{number}", cwd=str(shop), agent=group[0]))
            await driven.until(lambda: not driven.pane.is_behind)
        assert driven.app.is_running
        assert driven.app.clipboard == ""


async def test_what_stands_in_a_tool_card_is_there_to_the_letter(shop: Path) -> None:
    texts = [text for text in SHORT if "\n" not in text and "\t" not in text and 0 < len(text.strip()) < 40]
    async with recorded(shop, size=(100, 700)) as driven:
        driven.driver.tell(began(str(shop)))
        said = s.Content(content=s.TextContent(text="\n".join(f"<{text}>" for text in texts)))
        driven.driver.tell(tool("c", "other", "Say it", 1.0, content=[said]))
        await driven.shows("Say it")
        await driven.press("ctrl+up", "enter", "enter")
        await driven.shows(legible(f"<{texts[-1]}>"))
        whole = driven.text.replace("\n", "").replace(" ", "")
        hidden = [text for text in texts if legible(f"<{text}>").replace(" ", "") not in whole]
        assert not hidden


async def test_what_is_pasted_into_a_line_is_written_out(shop: Path) -> None:
    async with screen(shop) as driven:
        await driven.press("f3")
        await driven.shows("type to search")
        driven.app.screen.query_one(PlainInput).post_message(Paste("a\x1b[31mb\u202ec\x07"))
        await driven.shows("a\\u{1b}[31mb\\u{202e}c\\u{7}")

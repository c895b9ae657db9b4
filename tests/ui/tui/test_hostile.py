"""Whatever an agent says is plain text: no markup of the toolkit, no sequence of a terminal, nothing hidden."""

from pathlib import Path

from driven import screen
from textual.events import Paste

from dragoman import schema as s
from dragoman.ui.model import events as e
from dragoman.ui.model.parts import Participant, PendingQuestion, QuestionChoice, WaitingPrompt
from dragoman.ui.tui.plain_input import PlainInput

HOSTILE = (
    "[bold red]markup[/]",
    "[@click=app.quit]quit[/]",
    "[link=https://evil.example]safe[/link]",
    "[/]",
    "[",
    "[$error on $success]",
    "\x1b]52;c;aGFja2Vk\x07",
    "\x1b]8;;https://evil.example\x1b\\link\x1b]8;;\x1b\\",
    "\x1b]0;title\x07",
    "\x1b[2J\x1b[H",
    "\x1b[31mred\x1b[0m",
    "\x9b31m",
    "\x1bP1$tx\x1b\\",
    "\x1b_Gf=32;AAAA\x1b\\",
    "a\rb",
    "a\x08b",
    "\x00\x07\x7f",
    "safe\u202eevil",
    "zero\u200bwidth",
    "\u2066iso\u2069",
    "tag\U000e0041",
    "e" + "\u0301" * 40,
    "\u3164filler",
    "日本語😀👩\u200d👩\u200d👧",
    "W" * 5000,
    "line\n" * 300,
    "{{ template }} %s {0}",
    "$HOME `id`",
    "![image](https://evil.example/x.png)",
    "[here](javascript:alert(1))",
    "<script>alert(1)</script>",
)
NEVER = ("\x1b", "\x9b", "\x07", "\x08", "\r", "\x00", "\x7f", "\u202e", "\u2066", "\U000e0041", "\u3164")


SHORT = [text for text in HOSTILE if len(text) < 60]
# Alone where a text is an unfinished piece of something, else some together.
PUT = [
    "[",
    *(" ".join(SHORT[at : at + 7]) for at in range(0, len(SHORT), 7)),
    *(t for t in HOSTILE if len(t) >= 60),
]


def everywhere(text: str) -> list[e.ModelEvent]:
    """Events with a text in each field that a person is shown."""
    block = s.TextContent(text=text)
    line = text.replace("\n", " ") or " "
    option = s.SessionConfigSelect(
        id="o",
        name=text,
        category="model",
        current_value=text,
        options=[s.SessionConfigSelectOption(value=text, name=text)],
    )
    call = s.ToolCall(
        tool_call_id="c",
        title=text,
        name=text,
        kind="execute",
        status="failed",
        content=[
            s.Content(content=block),
            s.Content(content=s.ResourceLink(name=text, uri=text)),
            s.Diff(path=text, old_text=f"{text}\nold", new_text=f"{text}\nnew"),
            s.Terminal(terminal_id="t"),
        ],
        locations=[s.ToolCallLocation(path=text, line=1)],
        raw_input={text: text},
        raw_output=text,
    )
    updates: list[s.SessionUpdate] = [
        s.UserMessageChunk(content=block),
        s.AgentMessageChunk(content=block),
        s.AgentThoughtChunk(content=block),
        s.Plan(entries=[s.PlanEntry(content=text, priority="high", status="in_progress")]),
        s.AvailableCommandsUpdate(available_commands=[s.AvailableCommand(name=line, description=text)]),
        s.SessionInfoUpdate(title=text),
        s.UsageUpdate(used=1, size=2, cost=s.Cost(amount=1.0, currency=text)),
        s.Notice(severity=text, title=text, description=text),
        s.CompactionUpdate(compaction_id="k", status=text, error=text),
        s.SubagentUpdate(session_id="x", title=text, description=text),
        s.SessionMessage(message_id="n", sender_session_id=text, recipient_session_id=text, content=[block]),
        s.ConfigOptionUpdate(config_options=[option]),
        s.CurrentModeUpdate(current_mode_id=text),
    ]
    question = PendingQuestion(
        id="q",
        kind="permission",
        title=text,
        text=text,
        warnings=(text,),
        detail=f"@@ -1,1 +1,1 @@\n-{text}\n+{text}",
        choices=(QuestionChoice(id="y", label=text, allows=True), QuestionChoice(id="n", label=text)),
        url=text,
        form=s.ElicitationSchema(
            properties={
                "a": s.StringPropertySchema(title=text, description=text, default=text),
                "b": s.StringPropertySchema(title=text, enum=[text, "other"]),
            }
        ),
    )
    return [
        e.TerminalBegan(id="t", command=text),
        e.TerminalPrinted(id="t", text=text),
        *(e.UpdateTold(update=update) for update in updates),
        e.UpdateTold(update=call),
        e.PeopleTold(people=[Participant(name=text, role=text)]),
        e.PromptWaits(prompt=WaitingPrompt(id="w", prompt=[block], author=text)),
        e.DecisionTold(title=text, allowed=False, why=text),
        e.QuestionPut(question=question),
    ]


async def test_hostile_texts_in_every_field_are_shown_as_plain_text_and_act_on_nothing(shop: Path) -> None:
    async with screen(shop, size=(100, 30)) as driven:
        for number, text in enumerate(PUT):
            for event in everywhere(text):
                driven.driver.tell(event)
            await driven.pilot.pause(0.1)
            for key in ("ctrl+up", "enter"):
                await driven.press(key)
            await driven.pilot.pause(0.05)
            assert not [shown_line for shown_line in driven.lines if set(shown_line) & set(NEVER)], text
            assert len(driven.lines) == 30, text
            driven.driver.tell(e.QuestionOver(id="q", answer=text))
            driven.driver.tell(e.SessionBegan(id=f"s{number}", cwd=str(shop), agent=text))
            await driven.pilot.pause(0.05)
        assert driven.app.is_running
        assert driven.app.clipboard == ""


async def test_what_is_pasted_into_a_line_is_written_out(shop: Path) -> None:
    async with screen(shop) as driven:
        await driven.press("f3")
        await driven.shows("type to search")
        driven.app.screen.query_one(PlainInput).post_message(Paste("a\x1b[31mb\u202ec\x07"))
        await driven.shows("a\\u{1b}[31mb\\u{202e}c\\u{7}")

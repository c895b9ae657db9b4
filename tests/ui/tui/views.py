"""The views of the screen that matter most, each drawn from a recorded conversation: for snapshots and pictures.

No agent runs behind them, and they are the same on every machine at any time.
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import NamedTuple

from driven import Driven
from textual.content import Content

from dragoman import schema as s
from dragoman.ui.model import events as e
from dragoman.ui.model.parts import Link, Participant, PendingQuestion, QuestionChoice, WaitingPrompt
from dragoman.ui.tui.choosing.picker import Item, Picker

NOW = 100.0  # the time at which each view is looked at
Events = Iterator[e.ModelEvent]


class View(NamedTuple):
    """What happened, as it is told to a conversation in a directory, and what the person did then."""

    name: str
    events: Callable[[str], Events]
    act: Callable[[Driven], Awaitable[object]] | None = None


# Pieces of conversations

MODEL = s.SessionConfigSelect(
    id="model",
    name="Model",
    category="model",
    current_value="large",
    options=[
        s.SessionConfigSelectOption(value="small", name="Small", description="Quick, for small errands"),
        s.SessionConfigSelectOption(value="large", name="Large", description="Slower, for hard ones"),
    ],
)
EFFORT = s.SessionConfigSelect(
    id="effort",
    name="Effort",
    current_value="high",
    options=[
        s.SessionConfigSelectGroup(
            group="usual",
            name="Usual",
            options=[s.SessionConfigSelectOption(value="low", name="Low", description="Answers at once")],
        ),
        s.SessionConfigSelectGroup(
            group="costly",
            name="Costly",
            options=[s.SessionConfigSelectOption(value="high", name="High", description="Thinks first")],
        ),
    ],
)
WEB = s.SessionConfigBoolean(id="web", name="Web search", description="Looks things up", current_value=True)
MODES = s.SessionModeState(
    current_mode_id="code",
    available_modes=[s.SessionMode(id="code", name="Code"), s.SessionMode(id="plan", name="Plan")],
)
OLD = """TAX = 0.19

RATES = {
    "standard": 0.2, "reduced": 0.05, "standard": 0.19}


def total(price: float, kind: str = "standard") -> float:
    return price * (1 + RATES[kind])
"""
NEW = """TAX = 0.19

RATES = {
    "standard": 0.19, "reduced": 0.05}


def total(price: float, kind: str = "standard") -> float:
    return price * (1 + RATES[kind])
"""


def text(words: str) -> s.TextContent:
    return s.TextContent(text=words)


def told(update: s.SessionUpdate, at: float | None = None) -> e.UpdateTold:
    return e.UpdateTold(update=update, at=at)


def says(words: str, id: str = "m1", at: float | None = None) -> e.UpdateTold:
    return told(s.AgentMessageChunk(content=text(words), message_id=id), at)


def began(cwd: str, title: str | None = "Fix the failing price test") -> e.SessionBegan:
    return e.SessionBegan(
        id="sess_1", cwd=cwd, agent="Coder", modes=MODES, config_options=[MODEL, EFFORT, WEB], title=title, at=0.0
    )


def asked_for(words: str, id: str = "p1", at: float = 1.0) -> e.PromptGiven:
    return e.PromptGiven(id=id, prompt=[text(words)], at=at)


def tool(id: str, kind: str, title: str, at: float, **more: object) -> e.UpdateTold:
    return told(s.ToolCall(tool_call_id=id, kind=kind, title=title, status="in_progress", **more), at)  # type: ignore[arg-type]


def done(id: str, at: float, status: str = "completed", **more: object) -> e.UpdateTold:
    return told(s.ToolCallUpdated(tool_call_id=id, status=status, **more), at)  # type: ignore[arg-type]


def plan(*done_of: str) -> e.UpdateTold:
    steps = ("Find the failing test", "Read the rate table", "Correct the rate", "Run the tests")
    entries = [
        s.PlanEntry(content=step, priority="medium", status=status)  # type: ignore[arg-type]
        for step, status in zip(steps, done_of, strict=True)
    ]
    return told(s.Plan(entries=entries))


def errand(cwd: str) -> Events:
    """The beginning of the conversation that most views are from."""
    yield began(cwd)
    yield told(s.UsageUpdate(used=76_000, size=200_000, cost=s.Cost(amount=0.21, currency="USD")))
    yield asked_for("The price test fails since the rate change. Fix it.", at=88.0)
    yield plan("completed", "completed", "in_progress", "pending")
    yield told(s.AgentThoughtChunk(content=text("Where are the rates? A search will tell.")), 89.0)
    yield told(s.AgentThoughtChunk(content=text("\nThe table is in prices.py.")), 93.0)
    yield says("The rate table has two entries for `standard`; Python keeps the last one.", at=93.5)
    here = [s.ToolCallLocation(path=f"{cwd}/prices.py", line=3)]
    yield tool("c1", "read", "Read prices.py", 94.0, locations=here)
    yield done("c1", 94.1)
    yield tool("c2", "search", 'Search "standard"', 94.2)
    yield done("c2", 95.7, content=[s.Content(content=text("prices.py:4\nprices.py:7\ntest_prices.py:2"))])
    change = s.Diff(path=f"{cwd}/prices.py", old_text=OLD, new_text=NEW)
    yield tool("c3", "edit", "Edit prices.py", 96.0, content=[change], locations=here)
    yield done("c3", 96.2)


def running(cwd: str) -> Events:
    yield from errand(cwd)
    yield tool("c4", "execute", "pytest -q", 97.0, content=[s.Terminal(terminal_id="t1")])
    yield e.TerminalBegan(id="t1", command="pytest -q", at=97.0)
    yield e.TerminalPrinted(id="t1", text="\x1b[32m..\x1b[31mF\x1b[32m....\x1b[0m                    [ 43%]\n")


def working(cwd: str) -> Events:
    yield from running(cwd)
    yield e.PromptWaits(prompt=WaitingPrompt(id="p2", prompt=[text("then update the docs")]))
    yield e.PromptWaits(prompt=WaitingPrompt(id="p3", prompt=[text("and the changelog")]))


def finished(cwd: str) -> Events:
    yield from running(cwd)
    yield e.TerminalPrinted(
        id="t1", text="\x1b[32m.......\x1b[0m                    [100%]\n\x1b[32m14 passed\x1b[0m in 2.41s\n"
    )
    yield e.TerminalOver(id="t1", status=s.TerminalExitStatus(exit_code=0))
    yield done("c4", 99.6)
    yield plan("completed", "completed", "completed", "completed")
    yield says("The table has one entry for each kind now, and all 14 tests pass.", "m2", 99.8)
    yield e.TurnOver(id="p1", response=s.PromptResponse(stop_reason="end_turn"), at=99.9)


MARKDOWN = """## What changed

The rate of `standard` was there **twice**. Python keeps the *last* one, so:

1. the first entry is gone,
2. the test that failed passes.

- A list that is not numbered,
  - with one inside it

> Errors should never pass silently.

```python
def total(price: float, kind: str = "standard") -> float:
    return price * (1 + RATES[kind])  # one rate for each kind
```

| kind | before | now |
|---|---:|---:|
| standard | 0.20 | 0.19 |
| reduced | 0.05 | 0.05 |

See [the documentation](https://docs.python.org/3/) for more."""


def markdown(cwd: str) -> Events:
    yield began(cwd)
    yield asked_for("What did you change?")
    yield says(MARKDOWN)
    yield e.TurnOver(id="p1", response=s.PromptResponse(stop_reason="end_turn"), at=2.0)


def changes(cwd: str) -> Events:
    yield began(cwd)
    yield asked_for("Rename the function and add a test.")
    moved = NEW.replace("def total(", "def gross(").replace("TAX = 0.19\n\n", "")
    test = "from prices import gross\n\n\ndef test_gross() -> None:\n    assert gross(100) == 119\n"
    content = [
        s.Diff(path=f"{cwd}/prices.py", old_text=NEW, new_text=moved),
        s.Diff(path=f"{cwd}/test_prices.py", new_text=test),
    ]
    yield tool("c1", "edit", "Rename total to gross", 2.0, content=content)


CHOICES = (
    QuestionChoice(id="y", label="Allow once", allows=True),
    QuestionChoice(id="s", label="Allow exactly this in this session", allows=True, scope="session"),
    QuestionChoice(id="w", label="Allow exactly this in this workspace", allows=True, scope="workspace"),
    QuestionChoice(id="n", label="Deny"),
    QuestionChoice(id="reject_turn", label="Deny everything for the rest of this turn", scope="turn"),
)


def question(id: str = "q1", **more: object) -> e.QuestionPut:
    fields = {"kind": "permission", "title": "Run a command?", "choices": CHOICES, **more}
    return e.QuestionPut(question=PendingQuestion(id=id, **fields), at=98.0)  # type: ignore[arg-type]


def asks_to_run(cwd: str) -> Events:
    yield from errand(cwd)
    warnings = ("it downloads from the network", "it is followed by another command")
    yield question(text="pytest -q --maxfail=1 && curl https://example.com/report", warnings=warnings)
    yield question("q2", title="Edit a file?", text="docs/prices.md")


def asks_to_edit(cwd: str) -> Events:
    yield from changes(cwd)
    yield question(
        title="The agent wants to change files",
        is_claim=True,
        tool_call_id="c1",
        choices=CHOICES[:1] + CHOICES[3:4],
    )


def asks_in_a_form(cwd: str) -> Events:
    yield from errand(cwd)
    form = s.ElicitationSchema(
        properties={
            "name": s.StringPropertySchema(
                title="Name of the release", description="as people see it", min_length=1
            ),
            "date": s.StringPropertySchema(title="Date", format="date"),
            "number": s.IntegerPropertySchema(title="Number", minimum=1, maximum=99, default=3),
            "share": s.NumberPropertySchema(title="Share of users", minimum=0, maximum=1),
            "draft": s.BooleanPropertySchema(title="As a draft", default=True),
            "channel": s.StringPropertySchema(title="Channel", enum=["stable", "beta"], default="beta"),
            "systems": s.MultiSelectPropertySchema(
                title="Systems",
                items=s.StringMultiSelectItems(enum=["Linux", "macOS", "Windows"]),
                default=["Linux"],
            ),
        },
        required=["name"],
    )
    yield question(
        kind="form", title="The agent asks", text="What is to be released?", choices=(), form=form, is_claim=True
    )


def asks_to_visit(cwd: str) -> Events:
    yield from errand(cwd)
    choices = (
        QuestionChoice(id="open", label="Open the page", allows=True),
        QuestionChoice(id="no", label="Do not"),
    )
    yield question(
        kind="url",
        title="The agent asks you to visit a page",
        text="Log in to the tracker, so that I can close the issue.",
        url="https://tracker.example.com/login?client=coder",
        choices=choices,
        is_claim=True,
    )


def asks_for_login(cwd: str) -> Events:
    yield e.LinkTold(link=Link(kind="starting", since=97.0))
    choices = (
        QuestionChoice(id="key", label="With a key", allows=True),
        QuestionChoice(id="login", label="In a terminal", allows=True),
        QuestionChoice(id="", label="Not now"),
    )
    words = "With a key: the agent reads it from its own settings\nIn a terminal: the agent's own program asks you"
    yield question(kind="login", title="The agent wants you to log in", text=words, choices=choices)


def prints(cwd: str) -> Events:
    yield began(cwd, "Run everything")
    yield asked_for("Run the linter and the tests.")
    yield tool("c1", "execute", "ruff check .", 2.0, content=[s.Terminal(terminal_id="t1")])
    yield e.TerminalBegan(id="t1", command="ruff check .", at=2.0)
    yield e.TerminalPrinted(
        id="t1",
        text="\x1b[1mprices.py\x1b[0m\x1b[36m:\x1b[0m4:5: \x1b[1;31mF601\x1b[0m key \x1b[33m'standard'\x1b[0m\n",
    )
    yield e.TerminalOver(id="t1", status=s.TerminalExitStatus(exit_code=1))
    yield done("c1", 4.5, "failed")
    yield tool("c2", "execute", "make all", 5.0, content=[s.Terminal(terminal_id="t2")])
    yield e.TerminalBegan(id="t2", command="make all", at=5.0)
    yield e.TerminalPrinted(
        id="t2", text="".join(f"[{number}/40] compiling part_{number}.c\n" for number in range(1, 21))
    )
    yield e.TerminalBegan(id="t3", command="htop", is_mine=True, columns=60, rows=6, at=6.0)
    yield e.TerminalPrinted(
        id="t3",
        text="\x1b[?1049h\x1b[1;1H\x1b[30;42m  PID USER   CPU%  COMMAND        \x1b[0m"
        "\x1b[2;3H101 ada    12.0  python3\x1b[3;3H102 ada     3.5  \x1b[1mtmux\x1b[0m",
    )


def notes(cwd: str) -> Events:
    yield began(cwd, "A long day")
    yield asked_for("Go on.", at=1.0)
    yield told(s.CompactionUpdate(compaction_id="k", status="in_progress"), 2.0)
    yield told(s.CompactionUpdate(compaction_id="k", status="completed"), 9.0)
    yield told(
        s.SubagentUpdate(
            session_id="sub_1",
            title="Read the documentation",
            description="all of docs/",
            state=s.IdleStateUpdate(),
        ),
        12.0,
    )
    yield told(s.SubagentUpdate(session_id="sub_2", title="Try the examples"), 12.0)
    yield told(
        s.SessionMessage(
            message_id="n",
            sender_session_id="sub_1",
            recipient_session_id="sess_1",
            content=[text("Two pages are out of date.")],
        ),
        20.0,
    )
    yield told(
        s.Notice(severity="warning", title="The limit of the model is near", description="It is reset at noon."),
        21.0,
    )
    yield told(s.Notice(severity="error", title="The index could not be read"), 22.0)
    yield e.DecisionTold(title="read /etc/passwd", allowed=False, why="outside of the workspace", at=23.0)
    yield question(text="rm -r build")
    yield e.QuestionOver(id="q1", answer="Allow once", allowed=True, at=25.0)
    yield tool("c9", "delete", "Delete build", 26.0)
    yield e.TurnOver(id="p1", response=s.PromptResponse(stop_reason="cancelled"), at=30.0)
    yield asked_for("And now?", "p2", 40.0)
    yield e.TurnOver(id="p2", error="the agent was killed by SIGKILL", at=41.0)


def pictures(cwd: str) -> Events:
    yield began(cwd, "What is on it?")
    blocks = [
        text("What is on these?"),
        s.ImageContent(data="A" * 40_000, mime_type="image/png", uri=f"file://{cwd}/plan.png"),
        s.ResourceLink(name="prices.py", uri=f"file://{cwd}/prices.py", size=1200),
    ]
    yield e.PromptGiven(id="p1", prompt=blocks, at=1.0)
    yield says("A floor plan. Here it is in other colours:")
    yield told(
        s.AgentMessageChunk(content=s.ImageContent(data="A" * 90_000, mime_type="image/webp"), message_id="m1")
    )
    yield told(s.AgentMessageChunk(content=s.AudioContent(data="A" * 4000, mime_type="audio/wav"), message_id="m1"))
    yield e.TurnOver(id="p1", response=s.PromptResponse(stop_reason="end_turn"), at=3.0)


def shared(cwd: str) -> Events:
    yield from working(cwd)
    people = [Participant(name="ada", role="admin"), Participant(name="bob", role="viewer", client="2 clients")]
    yield e.PeopleTold(people=people)


def interrupted(cwd: str) -> Events:
    yield from shared(cwd)
    yield e.LinkTold(
        link=Link(kind="reconnecting", since=98.0, why="the gateway at gateway.example is not reached")
    )


def broken(cwd: str) -> Events:
    yield from errand(cwd)
    why = "the agent was killed by SIGKILL"
    yield e.TurnOver(id="p1", error=why, at=98.0)
    yield e.LinkTold(
        link=Link(
            kind="lost", since=98.0, why=f"{why}\nits last words: out of memory", remedy="start the agent again"
        )
    )


def commands(cwd: str) -> Events:
    yield began(cwd, None)
    named = [
        s.AvailableCommand(
            name="review", description="Look through the changes", input=s.UnstructuredCommandInput(hint="WHAT")
        ),
        s.AvailableCommand(name="release", description="Make a release"),
        s.AvailableCommand(name="init", description="Write down how this project works"),
    ]
    yield told(s.AvailableCommandsUpdate(available_commands=named))


def new(cwd: str) -> Events:
    yield began(cwd, None)


def long(cwd: str) -> Events:
    yield began(cwd, "Read everything")
    yield asked_for("Read all files.")
    for number in range(240):
        yield tool(f"c{number}", "read", f"Read part_{number}.py", 2.0 + number)
        yield done(f"c{number}", 2.2 + number)


# What the person does


async def open_a_model_picker(driven: Driven) -> None:
    await driven.press("ctrl+o")
    await driven.shows("Slower")


async def open_options(driven: Driven) -> None:
    await driven.press("f2")
    await driven.shows("Web search")


async def open_help(driven: Driven) -> None:
    await driven.press("f1")
    await driven.shows("Writing")


async def open_the_palette(driven: Driven) -> None:
    await driven.press("ctrl+p")
    await driven.until(lambda: "CommandPalette" in type(driven.app.screen).__name__)
    await driven.press(*"export")
    await driven.shows("Export as JSON")


def shows_list(
    title: str, items: Sequence[Item], keys: Sequence[tuple[str, str]] = (), preview: str = ""
) -> Callable[[Driven], Awaitable[object]]:
    async def act(driven: Driven) -> None:
        preview_of = (lambda id: Content(preview)) if preview else None
        await driven.app.push_screen(Picker(title, items, keys, preview_of))
        await driven.shows(title)

    return act


AGENTS = (
    Item("coder", "coder", "The coding agent of Dragoman", True, "Installed"),
    Item("reviewer", "reviewer", "Checks and linters, without a model", group="Installed"),
    Item("team", "team", "Coder of the team  wss://gateway.example/coder", group="Elsewhere"),
    Item("gemini", "gemini", "not installed; to install it: see its page", group="Not installed"),
    Item("mine", "mine", "agents.toml: 'command' is missing", group="Cannot be read"),
)
SESSIONS = (
    Item("new", "New session", group="coder"),
    Item("1", "Fix the failing price test", "2026-01-31 09:12  /work/shop", True, "coder"),
    Item("2", "Update the documentation", "2026-01-30 17:40  /work/shop", group="coder"),
    Item("3", "Release 2.4", "2026-01-29 11:05  /work/shop", group="team"),
)
SAID = (
    "Fix the failing price test\n\nYou: The price test fails since the rate change.\n\n"
    "The rate table has two entries."
)


async def complete_a_command(driven: Driven) -> None:
    await driven.press(*"/re")
    await driven.shows("Look through the changes")


async def complete_a_file(driven: Driven) -> None:
    await driven.press(*"look at @pri")
    await driven.shows("src/pricing.py")


async def attach(driven: Driven) -> None:
    pane = driven.pane
    pane.attached += [text("one\ntwo\nthree\n" * 8), s.ImageContent(data="A" * 60_000, mime_type="image/png")]
    pane.draw_chips()
    await driven.press(*"why?", "ctrl+j", *"See the log.")


async def open_tabs(driven: Driven) -> None:
    options = driven.driver.options
    for title, more in (("Update the docs", (question(),)), ("Release 2.4", (asked_for("Release it."),))):
        driven.app.open_tab(options)
        for event in (began(options.cwd, title), *more):
            driven.driver.tell(event)
    await driven.until(lambda: not any(pane.is_behind for pane in driven.app.panes))
    driven.app.show_tab(0)


async def follow(driven: Driven) -> None:
    await driven.press("f9")
    await driven.shows("→ prices.py:3")


async def unfold(driven: Driven) -> None:
    await driven.press("ctrl+up", "ctrl+up", "ctrl+up", "enter")


VIEWS = (
    View("first", new),
    View("working", working),
    View("finished", finished),
    View("unfolded", errand, unfold),
    View("markdown", markdown),
    View("changes", changes),
    View("asks-to-run", asks_to_run),
    View("asks-to-edit", asks_to_edit),
    View("asks-in-a-form", asks_in_a_form),
    View("asks-to-visit", asks_to_visit),
    View("asks-for-login", asks_for_login),
    View("prints", prints),
    View("notes", notes),
    View("pictures", pictures, attach),
    View("shared", interrupted),
    View("broken", broken),
    View("long", long),
    View("following", working, follow),
    View("tabs", working, open_tabs),
    View("model", finished, open_a_model_picker),
    View("options", finished, open_options),
    View("agents", finished, shows_list("Which agent?", AGENTS)),
    View(
        "sessions",
        finished,
        shows_list("Sessions", SESSIONS, [("ctrl+t", "in a new tab"), ("ctrl+d", "delete")], SAID),
    ),
    View("palette", finished, open_the_palette),
    View("help", finished, open_help),
    View("commands", commands, complete_a_command),
    View("files", new, complete_a_file),
)

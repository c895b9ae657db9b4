"""The cases that hold every implementation of the view model to one meaning.

`tests/ui/cases/NAME.jsonl` has the events of a conversation, one a line; `NAME.json` the model they make.
`python tests/ui/model_cases.py` records them again, from real sessions of Testy.
"""

import asyncio
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from dragoman import codec, connect
from dragoman import schema as s
from dragoman.testing import Testy
from dragoman.transcript import Message
from dragoman.ui.model import events as e
from dragoman.ui.model.conversation import ConversationModel
from dragoman.ui.model.parts import Link, Participant, PendingQuestion, QuestionChoice, WaitingPrompt
from dragoman.ui.model.terminals import TerminalView

CASES = Path(__file__).parent / "cases"
NAMES = sorted(path.stem for path in CASES.glob("*.jsonl"))


def events_of(name: str) -> list[e.ModelEvent]:
    lines = (CASES / f"{name}.jsonl").read_bytes().splitlines()
    return [codec.decode(line, e.ModelEvent) for line in lines]


def described(model: ConversationModel) -> dict[str, Any]:
    """All that a person can see of a conversation, as plain data."""
    transcript = model.transcript
    told = {
        "id": model.id,
        "cwd": model.cwd,
        "agent": model.agent,
        "title": model.title,
        "mode": model.mode,
        "modes": model.modes,
        "options": list(transcript.config_options),
        "commands": list(transcript.commands),
        "usage": transcript.usage,
        "entries": [_entry(model, entry) for entry in model.entries],
        "questions": list(model.questions.values()),
        "queue": list(model.queue.values()),
        "terminals": [_terminal(view) for view in model.terminals.views.values()],
        "people": list(model.people),
        "link": model.link,
        "state": model.state,
    }
    plain: dict[str, Any] = msgspec.json.decode(codec.encode(told))
    return plain


def _entry(model: ConversationModel, entry: Any) -> dict[str, Any]:
    span = model.span(entry)
    parts = {"content": entry.content} if isinstance(entry, Message) else {}
    told = msgspec.to_builtins(entry, builtin_types=(msgspec.Raw,))
    told.pop("blocks", None) if parts else None
    return {"entry": type(entry).__name__, "began": span.began, "ended": span.ended, **told, **parts}


def _terminal(view: TerminalView) -> dict[str, Any]:
    told = {"id": view.id, "command": view.command, "is_mine": view.is_mine, "is_over": view.is_over}
    rows = [{"runs": row.runs, "continues": row.continues} for row in view.rows]
    return {**told, "status": view.status, "rows": rows, "cursor": view.screen.cursor}


# Recording

CWD = "/work/shop"


def conversation() -> Iterator[e.ModelEvent]:
    """Words, thoughts, tools, plans, terminals and all other updates there are, and two prompts."""
    yield from recorded(
        "message\nthought\ntool\nplan\nplans\nusage\ncompaction\nsubagent", "show unknown", "rename"
    )


def cancelled() -> Iterator[e.ModelEvent]:
    """A turn that is cancelled in the middle of its work, and one that fails."""
    yield e.SessionBegan(id="sess_1", cwd=CWD, agent="Testy", at=0.0)
    yield e.PromptGiven(id="p1", prompt=[text("wait")], at=1.0)
    yield e.UpdateTold(
        update=s.ToolCall(tool_call_id="c1", title="Run it", kind="execute", status="in_progress"), at=2
    )
    yield e.UpdateTold(update=s.ToolCall(tool_call_id="c2", title="Read it", kind="read", status="completed"), at=3)
    yield e.TurnOver(id="p1", response=s.PromptResponse(stop_reason="cancelled"), at=4.5)
    yield e.PromptGiven(id="p2", prompt=[text("again")], at=5.0)
    yield e.UpdateTold(update=s.ToolCall(tool_call_id="c3", title="Write it", kind="edit"), at=6.0)
    yield e.TurnOver(id="p2", error="the agent was killed by SIGKILL", at=7.0)
    yield e.LinkTold(
        link=Link(kind="lost", since=7.0, why="the agent was killed by SIGKILL", remedy="start it again")
    )


def deciding() -> Iterator[e.ModelEvent]:
    """Questions that wait together, are answered out of order, and one that is withdrawn."""
    yes, no = QuestionChoice(id="y", label="Allow once", allows=True), QuestionChoice(id="n", label="Deny")
    form = s.ElicitationSchema(properties={"name": s.StringPropertySchema(title="Name")}, required=["name"])
    yield e.SessionBegan(id="sess_1", cwd=CWD, agent="Testy", at=0.0)
    yield e.PromptGiven(id="p1", prompt=[text("do it")], at=1.0)
    for number, kind in enumerate(("permission", "permission", "form", "url")):
        question = PendingQuestion(
            id=f"q{number}",
            kind=kind,
            title=f"Question {number}",
            text="pytest -q",
            choices=(yes, no) if kind == "permission" else (),
            tool_call_id="c1" if kind == "permission" else "",
            form=form if kind == "form" else None,
            url="https://example.com/in" if kind == "url" else "",
        )
        yield e.QuestionPut(question=question, at=2.0 + number)
    yield e.QuestionOver(id="q1", answer="Allow once", allowed=True, at=7.0)
    yield e.QuestionOver(id="q3", at=8.0)
    yield e.DecisionTold(title="read /etc/passwd", allowed=False, why="a rule of yours", at=9.0)
    yield e.UpdateTold(update=agent("done"), at=10.0)


def queueing() -> Iterator[e.ModelEvent]:
    """Prompts that wait: one is edited, one is dropped, one is sent; and the session is opened once more."""
    yield e.SessionBegan(id="sess_1", cwd=CWD, agent="Testy", at=0.0)
    yield e.PromptGiven(id="p1", prompt=[text("first")], at=1.0)
    for id in ("p2", "p3", "p4"):
        yield e.PromptWaits(prompt=WaitingPrompt(id=id, prompt=[text(id)]), at=2.0)
    yield e.PromptWaits(prompt=WaitingPrompt(id="p3", prompt=[text("p3, edited")]), at=3.0)
    yield e.PromptDropped(id="p2", at=4.0)
    yield e.PeopleTold(people=[Participant(name="ada", role="admin"), Participant(name="bob", role="viewer")])
    yield e.TurnOver(id="p1", response=s.PromptResponse(stop_reason="end_turn"), at=5.0)
    yield e.PromptGiven(id="p3", prompt=[text("p3, edited")], at=5.0)
    yield e.LinkTold(link=Link(kind="reconnecting", since=6.0), at=6.0)
    yield e.SessionBegan(id="sess_1", cwd=CWD, agent="Testy", at=7.0)
    yield e.UpdateTold(update=s.UserMessageChunk(content=text("first"), message_id="m1"))
    yield e.NoticeTold(text="the session was opened once more", at=8.0)


def printing() -> Iterator[e.ModelEvent]:
    """Terminals: colours, lines that are drawn over, wide letters, a screen of its own, and one of the agent's."""
    yield e.SessionBegan(id="sess_1", cwd=CWD, agent="Testy", at=0.0)
    yield e.TerminalBegan(id="t1", command="pytest -q", columns=40, rows=6)
    for piece in (
        "\x1b[32m..\x1b[0;1;31mF\x1b[0m\n 10 %\r 99 %\n",
        "日本 \x1b[38;5;208mo\x1b[48;2;1;2;3mx\x1b",
        "[0m!\n",
    ):
        yield e.TerminalPrinted(id="t1", text=piece)
    yield e.TerminalPrinted(id="t1", text="".join(f"line {number}\n" for number in range(9)))
    yield e.TerminalOver(id="t1", status=s.TerminalExitStatus(exit_code=1))
    yield e.TerminalBegan(id="t2", command="top", is_mine=True, columns=20, rows=4)
    yield e.TerminalPrinted(id="t2", text="\x1b[?1049h\x1b[2;3Hhello\x1b[1;1Hup")
    yield e.TerminalSized(id="t2", columns=30, rows=5)
    meta = {"terminal_info": {"terminal_id": "x"}, "terminal_output": {"terminal_id": "x", "data": "made\n"}}
    yield e.UpdateTold(update=s.ToolCall(tool_call_id="c1", title="make", kind="execute", meta=meta))
    gone = {"terminal_exit": {"terminal_id": "x", "exit_code": 0}}
    yield e.UpdateTold(update=s.ToolCallUpdated(tool_call_id="c1", status="completed", meta=gone))


RECORDED = (conversation, cancelled, deciding, queueing, printing)


def text(words: str) -> s.TextContent:
    return s.TextContent(text=words)


def agent(words: str) -> s.AgentMessageChunk:
    return s.AgentMessageChunk(content=text(words))


def recorded(*prompts: str) -> Sequence[e.ModelEvent]:
    """A real session of Testy, by a clock that goes on half a second with each event."""
    return asyncio.run(_recorded(prompts))


async def _recorded(prompts: Sequence[str]) -> Sequence[e.ModelEvent]:
    clock, found = itertools.count(), list[e.ModelEvent]()
    async with connect(Testy) as client:
        session = await client.new_session("/")
        options, modes = session.config_options, session.modes
        found.append(e.SessionBegan(id="sess_1", cwd=CWD, agent="Testy", modes=modes, config_options=options))
        for number, prompt in enumerate(prompts):
            found.append(e.PromptGiven(id=f"p{number}", prompt=[text(prompt)], at=next(clock) / 2))
            async for event in session.prompt(prompt):
                at = next(clock) / 2
                if isinstance(event, s.PromptResponse):
                    found.append(e.TurnOver(id=f"p{number}", response=event, at=at))
                else:
                    found.append(e.UpdateTold(update=event, at=at))
    return found


def main() -> None:
    CASES.mkdir(exist_ok=True)
    for case in RECORDED:
        found = list(case())
        (CASES / f"{case.__name__}.jsonl").write_bytes(b"".join(codec.encode(event) + b"\n" for event in found))
        told = described(ConversationModel(events_of(case.__name__)))
        shown = msgspec.json.format(msgspec.json.encode(told), indent=1)
        (CASES / f"{case.__name__}.json").write_bytes(shown + b"\n")


if __name__ == "__main__":
    main()

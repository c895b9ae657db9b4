"""Whatever the model does and the user answers: turns end, histories are valid, no call stays open."""

import asyncio
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from dragoman import Agent, Turn
from dragoman.coder import ScriptedModel, call, call_with, pause, stop, think
from dragoman.coder.context.history import Message, ModelReply, Results
from dragoman.coder.model.port import Busy, ModelError, TooLong
from dragoman.errors import InternalError, RpcError
from dragoman.testing import pair

from .desk import BareClient, DiskClient, calls, desk

pytestmark = pytest.mark.usefixtures("nothing_left")

TURNS, FULL_TURNS = 60, 5_000
MODES = ("ask", "code", "architect", "plan")


def word(chance: random.Random) -> Any:
    path = chance.choice(["a.txt", "b.txt", "nothing", "../out", "", ".env", "\0", "d/e/f"])
    return chance.choice(
        [
            "Some words. ",
            think("Hm."),
            call("read_file", path=path),
            call("write_file", path=path, content=chance.choice(["", "x", "y\n"])),
            call("edit_file", path=path, old=chance.choice(["", "x", "y"]), new="z"),
            call("list_files", path=path or "."),
            call("run_command", command=chance.choice(["true", "false", "echo hi", "", "\0", "exit 3"])),
            call("update_plan", steps=[{"content": "x"}]),
            call("exit_plan", plan="p"),
            call("task", task="Look around."),
            call("apply_patch", patch=f"*** Begin Patch\n*** Update File: {path}\n-x\n+z\n*** End Patch"),
            call("ask_user", question="?"),
            call_with(
                "read_file",
                chance.choice(["{", "[]", "null", '{"path": null}', '{"path": "\\ud800"}', '{"path": "\\q"}']),
            ),
            call("no_such_tool", x=1),
            call(chance.choice(["command_output", "stop_command"]), id="command-1"),
            pause(lambda: asyncio.sleep(0)),
        ]
    )


def step(chance: random.Random) -> Any:
    if chance.random() < 0.1:
        return chance.choice([Busy("busy"), TooLong("long"), ModelError("no")])
    words = [word(chance) for _ in range(chance.randint(1, 4))]
    return [*words, stop(chance.choice(["length", "refusal"]))] if chance.random() < 0.1 else words


def check(history: list[Message]) -> None:
    """Every call has its result right after it, and there is no result without a call."""
    for before, after in zip([None, *history], [*history, None], strict=True):
        owed = [made.id for made in before.calls] if isinstance(before, ModelReply) else []
        given = [result.id for result in after.results] if isinstance(after, Results) else []
        assert owed == given


async def attempt(seed: int, cwd: Path) -> str:
    """One turn of a random model with a random user; gives how it ended."""
    chance = random.Random(seed)
    client_class = chance.choice([DiskClient, BareClient])
    choices = ["allow", "allow_session", "reject", "code", "plan", "no such option", None]
    client = client_class(permissions=lambda request: chance.choice(choices))
    model = ScriptedModel(*(step(chance) for _ in range(chance.randint(1, 6))), name="scripted-gpt")
    cancel_after = chance.choice([None, chance.randint(0, 12)])
    async with (
        asyncio.timeout(60),
        desk(cwd, model=model, client=client, mode=chance.choice(MODES)) as (session, *_),
    ):
        prompt = session.prompt("Go")
        try:
            seen = 0
            async for _ in prompt:
                if seen == cancel_after:
                    session.cancel()
                seen += 1
            ended = str(prompt.response.stop_reason)
        except RpcError as exc:
            ended = type(exc).__name__
        still = [shown for shown in calls(client).values() if shown["status"] in ("pending", "in_progress")]
        assert not still, (seed, still)
        before = len(model.requests)
        model.requests.clear()
        model._steps = iter(["Here."])
        assert (await session.prompt("And now?")).stop_reason == "end_turn", (seed, before)
        check(list(model.requests[-1].history))
        assert client.terminals == []
    return ended


async def many(turns: int, cwd: Path, seed: int) -> Counter[str]:
    ends: Counter[str] = Counter()
    for number in range(turns):
        project = cwd / str(number)
        project.mkdir()
        (project / "a.txt").write_text("x\ny\n")
        ends[await attempt(seed + number, project)] += 1
    return ends


async def test_random_turns_end_and_leave_a_valid_history(tmp_path: Path) -> None:
    ends = await many(TURNS, tmp_path, seed=4100)
    assert sum(ends.values()) == TURNS
    assert len(ends) >= 3, ends


@pytest.mark.torture
@pytest.mark.timeout(3600)
async def test_very_many_random_turns_end_and_leave_a_valid_history(tmp_path: Path) -> None:
    ends = await many(FULL_TURNS, tmp_path, seed=100_000)
    assert set(ends) >= {"end_turn", "cancelled", "refusal", "max_tokens"}


NEEDS: dict[str, Any] = {
    "fs.read_text_file": lambda turn: turn.read("a.txt"),
    "fs.write_text_file": lambda turn: turn.write("a.txt", ""),
    "terminal": lambda turn: turn.terminal("true").__aenter__(),
    "elicitation.form": lambda turn: turn.elicit("Who?", {"name": str}),
    "elicitation.url": lambda turn: turn.elicit_url("Log in", "https://example.com"),
}


@pytest.mark.parametrize("capability", NEEDS)
async def test_an_agent_that_needs_what_its_client_lacks_fails_with_the_capabilitys_name(
    capability: str, tmp_path: Path
) -> None:
    class Needy(Agent):
        async def answer(self, turn: Turn) -> None:
            await NEEDS[capability](turn)

    async with pair(Needy, BareClient()) as client:
        session = await client.new_session(tmp_path)
        with pytest.raises(InternalError) as caught:
            await session.prompt("Go")
    assert capability in caught.value.message.replace(",", "").split(), caught.value.message
    assert caught.value.data["errorId"]

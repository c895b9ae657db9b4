"""Nothing an agent says holds the host's loop: each case is larger than what once held it for seconds."""

import asyncio
import time
from pathlib import Path

import pytest
from loop_holds import MOST, holds

from dragoman import schema as s
from dragoman.host.operations import Execute
from dragoman.host.permissions import Permissions, Question
from dragoman.host.terminals import Terminals, execution

COMMON = ("a\nb\n") * 2_000, ("b\nb\na\n") * 2_000
CHANGED = "".join(f"old {n}\n" for n in range(10_000)), "".join(f"new {n}\n" for n in range(10_000))


async def refuse(question: Question) -> str:
    return next(option.id for option in question.options if not option.allows)


def claim(number: int, *, old: str = "", new: str = "", said: str = "Edit") -> s.RequestPermissionRequest:
    diff = s.Diff(path="/a", old_text=old, new_text=new)
    call = s.ToolCallUpdate(tool_call_id=f"call {number}", title=said, content=[diff])
    options = [s.PermissionOption(option_id="n", name="No", kind="reject_once")]
    return s.RequestPermissionRequest(session_id=f"s{number}", tool_call=call, options=options)


async def test_somebody_who_holds_the_loop_is_noticed() -> None:
    with holds() as found:
        await asyncio.sleep(0)
        start = time.thread_time()
        while time.thread_time() < start + 2 * MOST:
            pass
        await asyncio.sleep(0)
    assert found.longest > MOST


@pytest.mark.parametrize(("old", "new"), [COMMON, CHANGED])
async def test_eight_large_diffs_at_once_hold_nobody_up(old: str, new: str) -> None:
    permissions = Permissions(asker=refuse)
    with holds() as found:
        await asyncio.gather(*(permissions.answer(claim(number, old=old, new=new)) for number in range(8)))
    assert found.longest < MOST, found.by


async def test_a_question_of_a_megabyte_holds_nobody_up() -> None:
    with holds() as found:
        await Permissions(asker=refuse).answer(claim(1, new="\x1b'x\u0301" * 250_000, said="\x1b" * 1_000_000))
    assert found.longest < MOST, found.by


async def test_a_command_of_two_hundred_thousand_words_holds_nobody_up(tmp_path: Path) -> None:
    operation = Execute(argv=("echo", *["x"] * 200_000), cwd=str(tmp_path))
    with holds() as found:
        await Permissions(asker=refuse).decide("s", operation)
    assert found.longest < MOST, found.by


async def test_output_without_end_holds_nobody_up() -> None:
    async with Terminals() as terminals, asyncio.timeout(60):
        with holds() as found:
            command = execution("yes | head -c 20000000", cwd="/")
            terminal = await terminals.create("s", command, output_byte_limit=1_000_000)
            await terminal.wait()
            assert terminal.output().truncated
    assert found.longest < MOST, found.by

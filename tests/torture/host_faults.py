"""Screens, disks and moments that fail: each fault gives whether something was allowed that nobody allowed."""

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from dragoman.host.audit import AuditLog
from dragoman.host.operations import FileRead
from dragoman.host.permissions import ApprovalStore, Permissions, Question, Rules
from dragoman.host.permissions.rules.matching import Rule

from .host_permissions import MATCHERS, Screen, permits, request
from .shell_tricks import CWD

PATIENCE = 5.0

Attempt = Callable[[Permissions], Awaitable[bool]]
READ = FileRead(path="/home/ada/project/a.txt")


async def by_decide(permissions: Permissions) -> bool:
    return (await permissions.decide("s", READ, workspace=CWD)).allowed


async def by_answer(permissions: Permissions) -> bool:
    params = request(title="Read a.txt")
    return permits(await permissions.answer(params), params)


YES = {by_decide: "allow_once", by_answer: "agent_2"}


def answering(value: Any) -> Callable[[Attempt], Awaitable[bool]]:
    async def fault(attempt: Attempt) -> bool:
        return await attempt(Permissions("ask", Rules(), Screen(value)))

    return fault


def raising(error: BaseException) -> Callable[[Attempt], Awaitable[bool]]:
    async def fault(attempt: Attempt) -> bool:
        async def asker(question: Question) -> str:
            raise error

        return await attempt(Permissions("ask", Rules(), asker))

    return fault


def meanwhile(
    act: Callable[[Permissions], None], *, stubborn: bool = False
) -> Callable[[Attempt], Awaitable[bool]]:
    """Something happens while the question is on the screen, and then the user says yes."""

    async def fault(attempt: Attempt) -> bool:
        async def asker(question: Question) -> str:
            act(permissions)
            try:
                await asyncio.sleep(0)
                await asyncio.sleep(0)
            except asyncio.CancelledError:
                if not stubborn:
                    raise
            return YES[attempt]

        permissions = Permissions("ask", Rules(), asker)
        return await attempt(permissions)

    return fault


def auditing(
    audit: Callable[[Permissions], Awaitable[object]], preset: Any = "ask"
) -> Callable[[Attempt], Awaitable[bool]]:
    """The user says yes, or the preset, and something happens while that is written down."""

    async def fault(attempt: Attempt) -> bool:
        async def record(event: Any) -> object:
            return await audit(permissions)

        permissions = Permissions(preset, Rules(), Screen(YES[attempt]), audit=record)
        return await attempt(permissions)

    return fault


async def _fails(permissions: Permissions) -> object:
    raise OSError(28, "No space left on device")


def _then(act: Callable[[Permissions], None]) -> Callable[[Permissions], Awaitable[object]]:
    async def audit(permissions: Permissions) -> object:
        await asyncio.sleep(0)
        return act(permissions)

    return audit


def _deny_by_rule(permissions: Permissions) -> None:
    permissions.rules = Rules([Rule(effect="deny", operations=tuple(MATCHERS), where="here")])


def _preset_deny(permissions: Permissions) -> None:
    permissions.preset = "deny"


async def _no_asker(attempt: Attempt) -> bool:
    return await attempt(Permissions("ask", Rules()))


async def _silent_screen(attempt: Attempt) -> bool:
    async def asker(question: Question) -> str:
        await asyncio.Event().wait()
        return YES[attempt]

    return await attempt(Permissions("ask", Rules(), asker, timeout=0.01))


async def _late_and_stubborn_screen(attempt: Attempt) -> bool:
    async def asker(question: Question) -> str:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return YES[attempt]

    return await attempt(Permissions("ask", Rules(), asker, timeout=0.01))


async def _plain_function(attempt: Attempt) -> bool:
    return await attempt(Permissions("ask", Rules(), lambda question: YES[attempt]))  # type: ignore[arg-type, return-value]


async def _closed_before(attempt: Attempt) -> bool:
    permissions = Permissions("allow-all", Rules(), Screen(YES[attempt]))
    permissions.close_session("s")
    return await attempt(permissions)


async def _turn_denied_before(attempt: Attempt) -> bool:
    permissions = Permissions("allow-all", Rules(), Screen(YES[attempt]))
    permissions.deny_turn("s")
    return await attempt(permissions)


async def _too_early(attempt: Attempt) -> bool:
    return await attempt(Permissions("ask", Rules(), Screen(YES[attempt]), arming=0.5))


async def _queue_full(attempt: Attempt) -> bool:
    async def asker(question: Question) -> str:
        if question.operation is None or question.operation == READ:
            return YES[attempt]
        await asyncio.Event().wait()
        return "reject_once"

    permissions = Permissions("ask", Rules(), asker)
    others = [FileRead(path=f"/home/ada/project/{number}") for number in range(33)]
    tasks = [asyncio.create_task(permissions.decide("s", other, workspace=CWD)) for other in others]
    await asyncio.sleep(0.01)
    allowed = await attempt(permissions)
    permissions.cancel("s")
    return any([allowed, *(decision.allowed for decision in await asyncio.gather(*tasks))])


async def _cancelled_task(attempt: Attempt) -> bool:
    shown = asyncio.Event()

    async def asker(question: Question) -> str:
        shown.set()
        await asyncio.Event().wait()
        return YES[attempt]

    task = asyncio.ensure_future(attempt(Permissions("ask", Rules(), asker)))
    await shown.wait()
    task.cancel()
    await asyncio.wait([task])
    return not task.cancelled() and task.result()


async def _cancelled_while_auditing(attempt: Attempt) -> bool:
    writing = asyncio.Event()

    async def record(event: Any) -> None:
        writing.set()
        await asyncio.Event().wait()

    task = asyncio.ensure_future(attempt(Permissions("allow-all", Rules(), audit=record)))
    await writing.wait()
    task.cancel()
    await asyncio.wait([task])
    return not task.cancelled() and task.result()


def _log_at(make: Callable[[Path], object]) -> Callable[[Attempt, Path], Awaitable[bool]]:
    async def fault(attempt: Attempt, directory: Path) -> bool:
        path = directory / "audit.jsonl"
        make(path)
        with AuditLog(path) as log:
            return await attempt(Permissions("allow-all", Rules(), audit=log.record))

    return fault


class _Broken(Rules):
    def judge(self, operation: Any, place: Any) -> Any:
        raise RuntimeError("a bug")


async def _broken_rules(attempt: Attempt) -> bool:
    # An agent's own question is not put to the rules, so its answer here is the user's no.
    return await attempt(Permissions("ask", _Broken(), Screen("reject_once")))


class _BrokenStore(ApprovalStore):
    def find(self, *_: Any) -> Any:
        raise RuntimeError("a bug")


async def _broken_store(attempt: Attempt) -> bool:
    return await attempt(
        Permissions("ask", Rules(), Screen("reject_once"), _BrokenStore("/nowhere/approvals.json"))
    )


FAULTS: dict[str, Callable[..., Awaitable[bool]]] = {
    "nobody to ask": _no_asker,
    "the screen fails": raising(RuntimeError("no screen")),
    "the screen's disk fails": raising(OSError(5, "Input/output error")),
    "the screen times out by itself": raising(TimeoutError()),
    "the screen is cancelled": raising(asyncio.CancelledError()),
    "the screen has a bug": raising(KeyError("x")),
    "the screen is gone": raising(ConnectionResetError()),
    "the screen is no coroutine": _plain_function,
    "no answer in time": _silent_screen,
    "no answer in time, from a screen that will not stop": _late_and_stubborn_screen,
    "an answer before it can have been read": _too_early,
    "dismissed": answering(None),
    "yes as a truth value": answering(True),
    "yes as a number": answering(1),
    "an empty answer": answering(""),
    "an option that does not exist": answering("allow"),
    "an option that would exist elsewhere": answering("allow_forever"),
    "an option nobody offered here": answering("agent_9"),
    "an option number zero": answering("agent_0"),
    "several options": answering(["allow_once", "agent_2"]),
    "a mapping": answering({"optionId": "allow_once"}),
    "an option with a blank": answering("allow_once "),
    "an option in capitals": answering("ALLOW_ONCE"),
    "an error": answering(RuntimeError()),
    "cancelled while asked": meanwhile(lambda permissions: permissions.cancel("s")),
    "cancelled while asked, by a screen that will not stop": meanwhile(lambda p: p.cancel("s"), stubborn=True),
    "closed while asked": meanwhile(lambda permissions: permissions.close_session("s")),
    "closed while asked, by a screen that will not stop": meanwhile(lambda p: p.close_session("s"), stubborn=True),
    "turn denied while asked": meanwhile(lambda permissions: permissions.deny_turn("s")),
    "preset becomes deny while asked": meanwhile(_preset_deny),
    "closed before": _closed_before,
    "turn denied before": _turn_denied_before,
    "too many questions": _queue_full,
    "the request is withdrawn while asked": _cancelled_task,
    "the request is withdrawn while written down": _cancelled_while_auditing,
    "disk full after yes": auditing(_fails),
    "disk full under allow-all": auditing(_fails, "allow-all"),
    "cancelled while written down": auditing(_then(lambda permissions: permissions.cancel("s"))),
    "closed while written down": auditing(_then(lambda permissions: permissions.close_session("s"))),
    "turn denied while written down": auditing(_then(lambda permissions: permissions.deny_turn("s"))),
    "preset becomes deny while written down": auditing(_then(_preset_deny), "allow-all"),
    "the rules have a bug": _broken_rules,
    "the store has a bug": _broken_store,
}
DISK_FAULTS: dict[str, Callable[[Attempt, Path], Awaitable[bool]]] = {
    "the log is a directory": _log_at(Path.mkdir),
    "the log is a link": _log_at(lambda path: path.symlink_to("/dev/null")),
    "the log is a pipe": _log_at(os.mkfifo),
    "the log's directory is a file": _log_at(lambda path: (path.parent.rmdir(), path.parent.touch())),
    "the seal is a directory": _log_at(lambda path: Path(f"{path}.seal").mkdir()),
}


async def faults(directory: Path) -> tuple[int, list[str]]:
    """How many faults were tried, and in which of them something was allowed."""
    tried, allowed = 0, []
    for attempt in (by_decide, by_answer):
        for name, fault in FAULTS.items():
            tried += 1
            async with asyncio.timeout(PATIENCE):
                if await fault(attempt):
                    allowed.append(f"{name} ({attempt.__name__})")
        for name, on_disk in DISK_FAULTS.items():
            tried += 1
            place = directory / f"{attempt.__name__}-{tried}"
            place.mkdir()
            if await on_disk(attempt, place):
                allowed.append(f"{name} ({attempt.__name__})")
    tried += 1
    if await meanwhile(_deny_by_rule)(by_decide):
        allowed.append("denied by a rule while asked")
    return tried, allowed

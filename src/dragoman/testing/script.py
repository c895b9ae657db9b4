"""The verbs of Testy, which are the commands in the lines of a prompt."""

import asyncio
import ctypes
import json
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable

from msgspec import Struct

from .. import schema as s
from ..agent.turn import Turn
from ..dialects.engine.shapes import CARRIED
from ..errors import RpcError
from ..foundation.programs import python_command
from ..roles import offered
from . import errands
from .showcase import EXHIBITS, UNHEARD_OF, VERSION_2, Exhibit

SECRET = "sk-testy-0123456789"  # part of a failing turn's exception, which no client may see
LAST_WORDS = "Stopping."

Act = Callable[[Turn, str], Awaitable[s.StopReason | None]]


class Verb(Struct, frozen=True):
    """A verb: its function, and its description in the list of commands."""

    act: Act
    hint: str = ""
    about: str = ""

    @property
    def description(self) -> str:
        return self.about or self.act.__doc__ or ""


# Speaking


async def echo(turn: Turn, rest: str) -> None:
    """Repeat something."""
    await turn.say(rest)


async def help_(turn: Turn, rest: str) -> None:
    """List the commands."""
    await turn.say("\n".join(f"{name} {verb.hint}".strip() for name, verb in VERBS.items()))


async def everything(turn: Turn, rest: str) -> None:
    """Send every kind of update that the client accepts; `unknown` adds one of an unknown kind."""
    for name, exhibit in EXHIBITS.items():
        if takes(turn, exhibit) and (name != UNHEARD_OF or name in rest.split()):
            await _show(turn, exhibit, "")


def takes(turn: Turn, exhibit: Exhibit) -> bool:
    if exhibit.needs == VERSION_2:
        marks = (turn.client.offers.meta or {}).get(CARRIED)
        return isinstance(marks, dict) and "v2" in marks
    return not exhibit.needs or offered(turn.client.offers, exhibit.needs)


async def _show(turn: Turn, exhibit: Exhibit, rest: str) -> None:
    for update in exhibit.updates(turn.session, rest):
        await turn.update(update)


def _showing(exhibit: Exhibit) -> Verb:
    async def show(turn: Turn, rest: str) -> None:
        if takes(turn, exhibit):
            await _show(turn, exhibit, rest)
        else:
            await turn.say(f"The client does not offer {exhibit.needs}.")

    return Verb(show, about=exhibit.about)


async def flood(turn: Turn, rest: str) -> None:
    """Send many chunks without a pause, each with its number, padded to a size."""
    count, size = _numbers(rest, 1000, 0)
    for number in range(count):
        await turn.say(f"{number} ".ljust(size, "."))


async def burst(turn: Turn, rest: str) -> None:
    """Send some updates and answer at once, without waiting for room."""
    (count,) = _numbers(rest, 100)
    for number in range(count):
        update = s.AgentMessageChunk(content=s.TextContent(text=f"{number} "))
        turn.client.update(s.SessionNotification(session_id=turn.session.id, update=update))


async def spend(turn: Turn, rest: str) -> None:
    """Report tokens with the answer to the prompt."""
    turn.usage = s.Usage(total_tokens=30, input_tokens=10, output_tokens=20, thought_tokens=5)


async def where(turn: Turn, rest: str) -> None:
    """Say the directories and MCP servers of the session."""
    session = turn.session
    servers = [server.name for server in session.mcp_servers]
    await turn.say(json.dumps([session.cwd, *session.additional_directories, *servers]))


async def instructions(turn: Turn, rest: str) -> None:
    """Say the system prompt of the session, and whether it is appended or replaces the agent's."""
    given = turn.session.system_prompt
    words = [block.text for block in given.content if isinstance(block, s.TextContent)] if given else []
    await turn.say(json.dumps({given.mode: words} if given else {}))


async def settings(turn: Turn, rest: str) -> None:
    """Say the current mode and config options."""
    session = turn.session
    values = {
        option.id: option.current_value
        for option in session.config_options
        if isinstance(option, s.SessionConfigSelect | s.SessionConfigBoolean)
    }
    await turn.say(json.dumps({"mode": session.mode, **values}))


async def meta(turn: Turn, rest: str) -> None:
    """Say the `_meta` of the prompt, and send it back with an update."""
    content = s.TextContent(text=json.dumps(turn.meta), meta=turn.meta)
    await turn.update(s.AgentMessageChunk(content=content, meta=turn.meta))


# Ending


async def wait(turn: Turn, rest: str) -> None:
    """Wait until cancelled, then say a last word."""
    await turn.say("Waiting.")
    try:
        await asyncio.Event().wait()
    finally:
        await turn.say(LAST_WORDS)


async def tidy(turn: Turn, rest: str) -> None:
    """Wait until cancelled, then send the client a request before the last word."""
    await turn.say("Waiting.")
    try:
        await asyncio.Event().wait()
    finally:
        await turn.client.request("_testy/ping")
        await turn.say(LAST_WORDS)


async def stubborn(turn: Turn, rest: str) -> None:
    """Ignore being cancelled until some seconds have passed."""
    seconds = float(rest or 0.5)
    await turn.say("Busy.")
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        try:
            await asyncio.sleep(left)
        except asyncio.CancelledError:
            continue
    await turn.say(LAST_WORDS)


async def hold(turn: Turn, rest: str) -> None:
    """Run a command in a terminal until cancelled."""
    async with turn.tool("Wait for it", kind="execute") as call, turn.terminal("sleep", "60") as terminal:
        await call.terminal(terminal)
        await turn.say("Waiting.")
        await terminal.wait()


async def fail(turn: Turn, rest: str) -> None:
    """Fail with an ordinary exception that contains a secret."""
    raise RuntimeError(f"the key {SECRET} was refused")


async def fail_tool(turn: Turn, rest: str) -> None:
    """Fail in the middle of a tool call."""
    async with turn.tool("Break", kind="other") as call:
        await call.text("Breaking.")
        await fail(turn, rest)


async def error(turn: Turn, rest: str) -> None:
    """Answer with an error of this code and message."""
    code, _, words = (rest or "-32000").partition(" ")
    raise RpcError.of(int(code), words, {"from": "testy"})


async def refuse(turn: Turn, rest: str) -> s.StopReason:
    """Refuse to continue."""
    return "refusal"


async def max_tokens(turn: Turn, rest: str) -> s.StopReason:
    """Run out of tokens."""
    return "max_tokens"


async def max_turn_requests(turn: Turn, rest: str) -> s.StopReason:
    """Run out of requests to the model."""
    return "max_turn_requests"


async def crash(turn: Turn, rest: str) -> None:
    """End the whole process in the middle of the turn."""
    await turn.say("Farewell.")
    await turn.client.wire.room()
    sys.stderr.write("testy crashes as it was told\n")
    sys.stderr.flush()
    os._exit(int(rest or 1))


# Output that must not reach the client


async def print_(turn: Turn, rest: str) -> None:
    """Print in every possible way; none of it may reach the client."""
    _print_everywhere(rest or "stray")
    await turn.say("Printed.")


def _print_everywhere(words: str) -> None:
    sys.stdout.write(f"{words}\n")
    sys.stdout.flush()
    os.write(1, f"{words}\n".encode())
    subprocess.run(python_command("-c", f"print({words!r})", site=False), check=True)
    libc = ctypes.CDLL(None)
    libc.puts(words.encode())
    libc.fflush(None)


async def stderr(turn: Turn, rest: str) -> None:
    """Write a number of bytes to stderr."""
    (count,) = _numbers(rest, 1024)
    await asyncio.to_thread(_complain, count)
    await turn.say("Complained.")


def _complain(count: int) -> None:
    line = b"." * 79 + b"\n"
    for start in range(0, count, len(line)):
        sys.stderr.buffer.write(line[: count - start])
    sys.stderr.flush()


def _numbers(rest: str, *defaults: int) -> tuple[int, ...]:
    given = [int(word) for word in rest.split()]
    return (*given, *defaults[len(given) :])[: len(defaults)]


VERBS = {
    "help": Verb(help_),
    "echo": Verb(echo, "TEXT"),
    **{name: _showing(exhibit) for name, exhibit in EXHIBITS.items()},
    "everything": Verb(everything, "unknown"),
    "flood": Verb(flood, "COUNT SIZE"),
    "updates-before-answer": Verb(burst, "COUNT"),
    "spend": Verb(spend),
    "where": Verb(where),
    "instructions": Verb(instructions),
    "settings": Verb(settings),
    "meta": Verb(meta),
    "read": Verb(errands.read, "PATH LINE LIMIT"),
    "write": Verb(errands.write, "PATH TEXT"),
    "run": Verb(errands.run, "COMMAND ARGS"),
    "kill": Verb(errands.kill, "COMMAND ARGS"),
    "overrun": Verb(errands.overrun, "COMMAND ARGS"),
    "tail": Verb(errands.tail, "BYTES COMMAND ARGS"),
    "released": Verb(errands.released),
    "ask": Verb(errands.ask, "KINDS"),
    "elicit": Verb(errands.elicit, "form|url"),
    "mcp": Verb(errands.mcp, "SERVER METHOD JSON"),
    "request": Verb(errands.request, "METHOD JSON"),
    "notify": Verb(errands.notify, "METHOD JSON"),
    "nested": Verb(errands.nested, "DEPTH"),
    "wait": Verb(wait),
    "tidy": Verb(tidy),
    "stubborn": Verb(stubborn, "SECONDS"),
    "hold": Verb(hold),
    "fail": Verb(fail),
    "fail_tool": Verb(fail_tool),
    "error": Verb(error, "CODE MESSAGE"),
    "refuse": Verb(refuse),
    "max_tokens": Verb(max_tokens),
    "max_turn_requests": Verb(max_turn_requests),
    "crash": Verb(crash, "STATUS"),
    "print": Verb(print_, "TEXT"),
    "stderr": Verb(stderr, "BYTES"),
}

"""`dragoman translate -- CMD`: serves an agent to clients of another dialect, over stdin and stdout."""

import argparse
import sys
from typing import TYPE_CHECKING

from .complaint import AGENT_FAILED, complain
from .values import Commands

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..transports.translating import TranslatingTransport

DIALECTS = ("v1", "v2", "pharo", "beamcode", "cursor", "draft", "jetbrains", "legacy")


def add_dialect(parser: argparse.ArgumentParser, option: str, who: str) -> None:
    """Add the option that names the dialect of a peer."""
    told = f"dialect of the {who}, if it is not detected by itself: {', '.join(DIALECTS)}"
    parser.add_argument(option, dest=f"{who}_dialect", type=_dialect, metavar="DIALECT", help=told)


def _dialect(text: str) -> str:
    from ..dialects import proper_name

    try:
        return proper_name(text)
    except ValueError as exc:
        raise argparse.ArgumentTypeError(str(exc)) from None


def add_to(commands: Commands) -> None:
    translate = commands.add_parser("translate", help="translate between the dialects of a client and of an agent")
    add_dialect(translate, "--from", "client")
    add_dialect(translate, "--to", "agent")
    translate.add_argument(
        "--report", action="store_true", help="report untranslatable messages on stderr, at the end"
    )
    translate.add_argument(
        "agent_command", nargs="+", metavar="CMD", help="command that starts the agent, after --"
    )
    translate.set_defaults(command=_translate)


def _translate(arguments: argparse.Namespace) -> int:
    import asyncio

    from ..errors import Error
    from ..transports.stdio import claimed_stdio

    try:
        with claimed_stdio() as descriptors:
            return asyncio.run(_run(descriptors, arguments))
    except Error as exc:
        return complain(str(exc), AGENT_FAILED)
    except asyncio.CancelledError:  # by SIGTERM, as editors end programs
        return 0


async def _run(descriptors: tuple[int, int], arguments: argparse.Namespace) -> int:
    import asyncio
    import signal

    from ..transports.process import spawn
    from ..transports.relay import relay
    from ..transports.stdio import StdioTransport
    from ..transports.translating import TranslatingTransport

    process = await spawn(arguments.agent_command, on_stderr=_pass_on)
    task = asyncio.current_task()
    assert task
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    stdio = StdioTransport()
    await stdio.open(*descriptors)
    edges = (
        TranslatingTransport(stdio, "client", arguments.client_dialect),
        TranslatingTransport(process, "agent", arguments.agent_dialect),
    )
    ended = await relay(*edges)
    if arguments.report:
        _report(edges)
    if ended is edges[1] and process.status:
        return complain(str(await process.why_ended()), AGENT_FAILED)
    return 0


def _pass_on(data: bytes) -> None:
    """Pass on the agent's stderr."""
    from ..ui.output import install

    _, stderr = install()
    stderr.write_bytes(data)
    stderr.flush()


def _report(edges: "Sequence[TranslatingTransport]") -> None:
    for edge, side in zip(edges, ("client", "agent"), strict=True):
        if edge.translator is None:
            continue
        for row, times in sorted(edge.translator.report.items()):
            meaning = edge.translator.losses.get(row, row)
            print(f"not translated for the {side} ({edge.dialect}), {times} times: {meaning}", file=sys.stderr)

"""Gateways to be killed: each is forked from a process that has everything loaded, so one starts in milliseconds.

Run as `python nursery.py DIRECTORY PORT TARGET`; a line on stdin starts a gateway, its pid comes back on stdout
once clients can come.  TARGET is the agent: `class` for one in the gateway's process, else a command.
"""

import asyncio
import gc
import os
import shlex
import signal
import sys
from pathlib import Path

from dragoman import Agent
from dragoman.gateway.agents.upstream import Hosted
from dragoman.gateway.serving import ServeOptions, serve
from dragoman.host import Host  # noqa: F401 - loaded before the fork
from dragoman.transports.remote.server import asgi, http1, server, websocket  # noqa: F401


class Counter(Agent):
    """Counts, as fast as it is allowed to, and says how far it was asked to."""

    async def answer(self, turn):
        count = int(turn.text.split()[-1])  # an agent that was started again is told of before
        async with turn.tool("count", kind="other"):
            for number in range(count):
                await turn.say(f"{number} ")
                if number % 10 == 9:
                    await asyncio.sleep(0.001)


def main() -> None:
    directory, port, target = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    hosted = Hosted(target=Counter if target == "class" else shlex.split(target), preset="allow-all")
    order = ServeOptions(agents={"counter": hosted}, state=directory, port=port, drain=0.1)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those that were killed
    gc.freeze()  # what is shared with those that are forked stays shared
    for _ in sys.stdin:
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            asyncio.run(serve(order, lambda url: print(os.getpid(), flush=True)))
            os._exit(0)


if __name__ == "__main__":
    main()

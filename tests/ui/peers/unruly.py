"""An agent that takes no notice of being cancelled, hung up on or asked to go, and starts what leaves it behind.

It notes in the file that it is given when it is asked to go.
"""

import asyncio
import os
import signal
import subprocess
import sys

from dragoman import Agent, serve
from dragoman import schema as s
from dragoman.reviewer.linters.commands import Commands


def note(*_):
    with open(sys.argv[1], "a") as file:
        file.write("asked to go\n")


class Unruly(Agent):
    async def answer(self, turn):
        signal.signal(signal.SIGTERM, note)
        in_its_group = subprocess.Popen(["sleep", "600"])
        in_a_session = subprocess.Popen(["sleep", "600"], start_new_session=True)
        leaving = ["sh", "-c", "setsid sleep 600 >/dev/null 2>&1 & echo $!"]
        daemon = await asyncio.to_thread(subprocess.check_output, leaving)
        reading, writing = os.pipe()
        named = f"/proc/{os.getpid()}/fd/{writing}"
        self.commands = Commands()
        command = ["/bin/sh", "-c", f"setsid sleep 600 & echo $$ $! > {named}; exec sleep 600"]
        self.kept = asyncio.create_task(self.commands.run(command, cwd=turn.session.cwd))
        kept = (await asyncio.to_thread(os.read, reading, 100)).decode()
        pids = [os.getpid(), in_its_group.pid, in_a_session.pid, int(daemon), *map(int, kept.split())]
        await turn.say(f"Started {' '.join(map(str, pids))}.\n")
        self.asked = asyncio.create_task(turn.ask(s.ToolCallUpdate(tool_call_id="call", title="A job")))
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                continue


serve(Unruly)
while True:
    signal.pause()

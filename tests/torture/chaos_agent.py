"""The agent of an hour of chaos: says the words of a prompt, unless the first of them is a way to misbehave."""

import asyncio
import os
import sys
import time
from typing import Any

from dragoman import Agent, serve


class Chaotic(Agent):
    async def answer(self, turn: Any) -> None:
        words = turn.prompt[-1].text.split()  # behind what was said before, where this is a new process
        match words[0]:
            case "wedge":  # it reads nothing any more, and answers nothing
                time.sleep(1e6)  # noqa: ASYNC251
            case "die":
                os._exit(3)
            case "noise":  # what is no frame, and what is for nobody
                end = time.monotonic() + 2
                while time.monotonic() < end:
                    sys.stderr.write("noise " * 1000 + "\n")
                    os.write(1, b"this is no frame\n" * 100)
                    await asyncio.sleep(0)
            case "flood":
                for _ in range(500):
                    await turn.say("x" * 10_000)
            case _:
                for word in words:
                    await turn.say(word + " ")
                    await asyncio.sleep(0.01)


serve(Chaotic)

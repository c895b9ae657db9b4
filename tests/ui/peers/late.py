"""An agent that answers nothing before a file is there, as one does that has to be fetched first."""

import os
import sys
import time

from dragoman import Agent, serve


class Late(Agent):
    async def answer(self, turn):
        await turn.say("Here I am.")


deadline = time.monotonic() + 60
while not os.path.exists(sys.argv[1]) and time.monotonic() < deadline:
    time.sleep(0.02)
serve(Late)

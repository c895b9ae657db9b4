"""Obeys the same commands as Testy, and keeps its sessions for the next start."""

from dragoman import Agent, serve
from dragoman.store import durable
from dragoman.testing import Testy
from dragoman.testing.script import VERBS


class Workmate(Agent):
    info = Testy.info
    accepts = ("image", "embedded_context")
    modes = Testy.modes
    config_options = Testy.config_options

    async def answer(self, turn):
        for line in filter(None, turn.text.split("\n")):
            name, _, rest = line.partition(" ")
            if name in VERBS:
                if reason := await VERBS[name].act(turn, rest):
                    return reason
            else:
                await turn.say(f"You said: {line}")
        for block in turn.prompt[1:]:
            await turn.say(block)
        return None


serve(durable(Workmate))

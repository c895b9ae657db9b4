"""An agent for editors: mends what it is told is wrong, after it asked; waits where it is told to."""

import asyncio
from urllib.parse import unquote, urlsplit

from dragoman import Agent, serve
from dragoman.schema import ResourceLink


class Mender(Agent):
    async def answer(self, turn):
        if "wait" in turn.text:
            await turn.say("waiting")
            await asyncio.Event().wait()
        links = [block for block in turn.prompt if isinstance(block, ResourceLink)]
        if "Fix" not in turn.text or not links:
            await turn.say(f"You said: {turn.text}")
            return
        path = unquote(urlsplit(links[0].uri).path)
        text = await turn.read(path)
        await turn.write(path, text.replace("nmae", "name"))
        await turn.say("Mended.")


serve(Mender)

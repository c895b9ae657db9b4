"""An agent in a process of its own that asks its client for what it is told to, and says what it was answered."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from dragoman import Agent, RpcError, Session, Turn, connect, extension, serve
from dragoman.host import Host

COMMAND = [sys.executable, __file__]


class Errand(Agent):
    """A prompt is a JSON list of requests `[method, params]`, made in order, or all at once as `{"all": […]}`.

    Each answer is said as one line: `{"result": …}`, or `{"error": [code, kind, message]}`.
    """

    accepts = ("additional_directories",)

    async def answer(self, turn: Turn) -> None:
        self.news: asyncio.Queue[Any] = asyncio.Queue()
        orders = json.loads(turn.text)
        if isinstance(orders, dict):
            for line in await asyncio.gather(*(self.ask(turn, *order) for order in orders["all"])):
                await turn.say(line)
        else:
            for order in orders:
                await turn.say(await self.ask(turn, *order))

    async def ask(self, turn: Turn, method: str, params: dict[str, Any]) -> str:
        if method == "hear":  # what the client tells by itself
            return json.dumps({"result": await self.news.get()}) + "\n"
        if method == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        is_long = params.pop("isLong", False)
        try:
            result = await self.client.request(method, {"sessionId": turn.session.id, **params})
            if is_long:  # to be said in few words: how long each text is, and how it ends
                result = {name: [len(text), text[-5:]] for name, text in result.items() if isinstance(text, str)}
            return json.dumps({"result": result}) + "\n"
        except RpcError as error:
            kind = error.data.get("kind") if isinstance(error.data, dict) else None
            return json.dumps({"error": [error.code, kind, error.message]}) + "\n"

    @extension("_dragoman/terminal/output")
    def pushed(self, params: Any) -> None:
        self.news.put_nowait(params)

    @extension("_dragoman/fs/changed")
    def changed(self, params: Any) -> None:
        self.news.put_nowait(params)


async def answers(session: Session, orders: object) -> list[dict[str, Any]]:
    """What the agent is answered when it asks for all this."""
    said = ""
    async for event in session.prompt(json.dumps(orders)):
        said += getattr(getattr(event, "content", None), "text", "")
    return [json.loads(line) for line in said.splitlines()]


async def answer(session: Session, method: str, **params: Any) -> Any:
    """The result of one request, or `(code, kind)` of its error."""
    (line,) = await answers(session, [[method, params]])
    return line["result"] if "result" in line else tuple(line["error"][:2])


@asynccontextmanager
async def hosting(host: Host, cwd: Path, **options: Any) -> AsyncIterator[Session]:
    """A session, in a directory, of an agent that runs errands."""
    async with asyncio.timeout(60), connect(COMMAND, host):
        yield await host.new_session(cwd, **options)


if __name__ == "__main__":
    serve(Errand)

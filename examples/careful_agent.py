"""An agent that plans, shows a diff, asks before it writes, and writes through the client's file system."""

from dragoman import Agent, Turn, serve
from dragoman.schema import PlanEntry, StopReason


class Careful(Agent):
    async def answer(self, turn: Turn) -> StopReason | None:
        path = turn.text.strip()
        await turn.plan(PlanEntry(content=f"Read {path}", priority="high", status="in_progress"), "Add a newline")
        text = await turn.read(path)
        if text.endswith("\n"):
            await turn.say(f"{path} is fine as it is.")
            return None
        async with turn.tool(f"Edit {path}", kind="edit", locations=[path]) as call:
            await call.diff(path, text, text + "\n")
            if not await turn.ask(call):
                await turn.say("Then I leave it.")
                return None
            await turn.write(path, text + "\n")
        await turn.say(f"{path} ends with a newline now.")
        return "end_turn"


if __name__ == "__main__":
    serve(Careful)

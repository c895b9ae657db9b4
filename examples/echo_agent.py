"""The smallest agent: run it from any editor that speaks ACP."""

from dragoman import Agent, Turn, serve


class Echo(Agent):
    async def answer(self, turn: Turn) -> None:
        await turn.say(f"You said: {turn.text}")


if __name__ == "__main__":
    serve(Echo)

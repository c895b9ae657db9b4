"""Dragoman's agent in the benchmark."""

from work import CHUNK, must_be

from dragoman import Agent, Turn, serve


class Worker(Agent):
    async def answer(self, turn: Turn) -> None:
        match turn.text.split():
            case ["say", count]:
                for _ in range(int(count)):
                    await turn.say(CHUNK)
            case ["read", path, count, size]:
                for _ in range(int(count)):
                    must_be(size, await turn.read(path))


if __name__ == "__main__":
    serve(Worker)

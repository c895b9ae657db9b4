"""Methods of your own, both ways: their names begin with an underscore, their types are yours."""

import asyncio

from msgspec import Struct

from dragoman import Agent, Client, Turn, connect, extension


class Weather(Struct):
    city: str
    degrees: float


class City(Struct):
    name: str


class WeatherAgent(Agent):
    @extension("_example/weather")
    async def weather(self, params: City) -> Weather:
        return Weather(city=params.name, degrees=21.5)

    async def answer(self, turn: Turn) -> None:
        self.client.notify("_example/thinking", {"about": turn.text})
        await turn.say("Sunny.")


class Listening(Client):
    @extension("_example/thinking")
    def thinking(self, params: dict[str, str]) -> None:
        print("The agent thinks about", params["about"])


async def main() -> None:
    async with connect(WeatherAgent, Listening()) as client:
        print(await client.agent.request("_example/weather", City("Lisbon"), Weather))
        session = await client.new_session()
        print((await session.prompt("the weather")).stop_reason)


asyncio.run(main())

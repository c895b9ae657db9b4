"""Two translators back to back: version 1 at both ends, version 2 between them."""

from typing import Any

from dragoman.dialects.v2.translator import V2

Message = dict[str, Any]

EVERYTHING: Message = {  # what a client of version 1 can say it takes
    "session": {"configOptions": {"boolean": {}}, "notices": {}, "compaction": {}},
    "plan": {},
    "subagents": {},
}


class Between:
    """`to_client` and `to_agent` take a message of version 1 all the way; `heard` and `said` only half of it."""

    def __init__(self, offers: Message | None = None, agent: Message | None = None) -> None:
        self.at_client, self.at_agent = V2("agent"), V2("client")
        params = {"protocolVersion": 1, "clientCapabilities": EVERYTHING if offers is None else offers}
        (greeting,) = self.to_agent({"id": 0, "method": "initialize", "params": params})
        result = {"protocolVersion": 1, "agentCapabilities": agent or {}}
        (self.welcome,) = self.to_client({"id": greeting["id"], "result": result})

    def to_agent(self, message: Message) -> list[Message]:
        between = self.at_client.outward({"jsonrpc": "2.0", **message}).onward
        return [heard for one in between for heard in self.at_agent.inward(one).onward]

    def to_client(self, message: Message) -> list[Message]:
        between = self.at_agent.outward({"jsonrpc": "2.0", **message}).onward
        return [heard for one in between for heard in self.at_client.inward(one).onward]

    def heard(self, update: Message) -> list[Message]:
        """An update of version 2 as our client hears it."""
        return updates(self.at_client.inward(note(update)).onward)

    def said(self, update: Message) -> list[Message]:
        """An update of ours as a client of version 2 hears it."""
        return updates(self.at_agent.outward(note(update)).onward)

    def lost(self) -> set[str]:
        return {*self.at_client.report, *self.at_agent.report}


def note(update: Message) -> Message:
    params = {"sessionId": "s", "update": update}
    return {"jsonrpc": "2.0", "method": "session/update", "params": params}


def updates(messages: list[Message]) -> list[Message]:
    return [message["params"]["update"] for message in messages]

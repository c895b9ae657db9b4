"""One conversation in which everything happens, and what is to be seen of it at both ends."""

import asyncio
from contextlib import asynccontextmanager

from dragoman import Transcript, connect, serve_on
from dragoman import schema as s
from dragoman.roles import offered
from dragoman.testing import RecordingClient, Testy
from dragoman.transports.memory import pipe
from dragoman.transports.relay import relay
from dragoman.transports.translating import TranslatingTransport

LIMIT = 20  # seconds for a whole conversation
OLD, NEW = "one\ntwo\n", "one\n2\n"


class Teller(Testy):
    """Does everything an agent can do in one turn, and notes what it was answered."""

    commands = (s.AvailableCommand(name="go", description="Goes"),)

    def __init__(self, client):
        super().__init__(client)
        self.notes = {}

    async def answer(self, turn):
        self._touch(turn)
        if turn.text == "wait":
            await turn.say("Waiting.")
            await asyncio.Event().wait()
        await turn.think("Let me see.")
        await turn.say("Hello ")
        await turn.say("world.")
        await turn.plan(
            s.PlanEntry(content="look", priority="high", status="completed"),
            s.PlanEntry(content="write", priority="low", status="in_progress"),
        )
        await self._edit(turn)
        await self._be_refused(turn)
        await self._run(turn)
        await turn.session.set_mode("plan")
        await turn.say("Done.")

    async def _edit(self, turn):
        async with turn.tool("Edit a.txt", kind="edit", locations=["/work/a.txt"], id="edit") as call:
            await call.diff("/work/a.txt", OLD, NEW)
            self.notes["allowed"] = bool(await turn.ask(call))
            if offered(turn.client.offers, "fs.read_text_file"):
                self.notes["read"] = await turn.read("/work/a.txt", line=2, limit=1)
                await turn.write("/work/a.txt", NEW)

    async def _be_refused(self, turn):
        async with turn.tool("Delete b.txt", kind="delete", locations=["/work/b.txt"], id="delete") as call:
            self.notes["refused"] = not await turn.ask(call)

    async def _run(self, turn):
        if not offered(turn.client.offers, "terminal"):
            return
        async with (
            turn.tool("Run it", kind="execute", id="run") as call,
            turn.terminal("sh", "-c", "echo $WORD; exit 3", env={"WORD": "hi"}) as terminal,
        ):
            await call.terminal(terminal)
            status = await terminal.wait()
            self.notes["ran"] = ((await terminal.output()).output, status.exit_code)


def decider(asked):
    """A client that cannot be told what is asked for goes by the order: first yes, then no."""

    def choose(params):
        asked.append(params)
        wanted = "allow_once" if len(asked) == 1 else "reject_once"
        return next(option.option_id for option in params.options if option.kind == wanted)

    return choose


class Between:
    """A client of one dialect, an agent of another, and what stands between them."""

    def __init__(self, client_dialect, agent_dialect):
        self.dialects = (client_dialect, agent_dialect)
        self.edges = []
        self.agents = []

    @asynccontextmanager
    async def talking(self, client):
        """The client, connected through everything; each end speaks its dialect on its wire."""
        near, left = pipe()
        right, far = pipe()
        first, last = self.dialects
        speaker, answerer = TranslatingTransport(near, "agent", first), TranslatingTransport(far, "client", last)
        middle = TranslatingTransport(left, "client", first), TranslatingTransport(right, "agent", last)
        self.edges = [speaker, *middle, answerer]
        serving = asyncio.create_task(serve_on(self._agent, answerer, dialect="v1"), name="agent")
        between = asyncio.create_task(relay(*middle), name="between")
        async with asyncio.timeout(LIMIT), connect(speaker, client, dialect="v1") as connected:
            yield connected
        await asyncio.gather(between, serving)

    def _agent(self, client):
        self.agents.append(Teller(client))
        return self.agents[-1]

    @property
    def agent(self):
        return self.agents[0]

    @property
    def lost(self):
        """The rows that were lost between the ends, by dialect."""
        return {(edge.dialect, row) for edge in self.edges if edge.translator for row in edge.translator.report}


async def converse(between):
    """Have the whole conversation; gives what is to be seen of it, facet by facet."""
    asked = []
    client = RecordingClient(permissions=decider(asked), files={"/work/a.txt": OLD})
    seen = {}
    async with between.talking(client):
        session = await client.new_session("/work")
        seen["ends"] = [(await session.prompt("go")).stop_reason]
        first = Transcript(note.update for note in client.updates)
        await session.set_mode("code")
        await session.set_config_option("model", "large")
        waiting = session.prompt("wait")
        async for event in waiting:
            if isinstance(event, s.AgentMessageChunk):
                session.cancel()
        seen["ends"].append(waiting.response.stop_reason)
        client.updates.clear()
        again = await client.load_session(session.id, "/work")
        replayed = Transcript(again.backlog())
        state = between.agent.sessions[session.id]
        seen |= {"mode": state.mode, "option": state.config("model")}
    return seen | of_transcript(first) | of_replay(replayed) | of_ends(client, between.agent, asked)


def of_transcript(transcript):
    tools = {call.id: call for call in transcript.tool_calls}
    diffs = [
        (c.path, c.old_text, c.new_text) for call in tools.values() for c in call.content if isinstance(c, s.Diff)
    ]
    plan = transcript.plan.plan.entries if transcript.plan else []
    return {
        "words": [message.text for message in transcript.messages if message.speaker == "agent"],
        "thoughts": [m.text for m in transcript.messages if m.speaker == "thought"],
        "plan": [(entry.content, entry.status) for entry in plan],
        "priorities": [entry.priority for entry in plan],
        "tools": [(id, call.kind, call.status) for id, call in tools.items() if not id.count("permission")],
        "titles": [call.title for id, call in tools.items() if not id.count("permission")],
        "places": [place.path for call in tools.values() for place in call.locations or ()],
        "diff": diffs,
        "mode told": transcript.mode,
        "commands": [command.name for command in transcript.commands],
    }


def of_replay(transcript):
    return {"history": "".join(message.text for message in transcript.messages if message.speaker == "agent")}


def of_ends(client, agent, asked):
    return {
        "questions": len(asked),
        "answers": (agent.notes["allowed"], agent.notes["refused"]),
        "file": (agent.notes.get("read"), client.files["/work/a.txt"]),
        "terminal": agent.notes.get("ran"),
    }

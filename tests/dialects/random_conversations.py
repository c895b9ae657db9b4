"""Conversations nobody thought of: a few turns in a session or two, each doing anything in any order."""

import asyncio
from random import Random

from dragoman import Transcript
from dragoman import schema as s
from dragoman.roles import offered
from dragoman.testing import RecordingClient, Testy

from .conversation import Between, of_transcript

MIB = 1024 * 1024
LETTERS = 'abc \n\t"\\/{}[]<>&%é€😀\u2028\u0000\u007f'  # what is written, cut and escaped in different ways
KINDS = ("read", "edit", "delete", "search", "execute", "fetch", "think", "other")


class Script:
    """What happens in one turn, and what is to be seen of it."""

    def __init__(self, random, key, size=0):
        self.key, self.size = key, size
        kinds = random.choices(
            ("say", "think", "plan", "tool", "ask", "read", "write", "run"), k=random.randint(1, 7)
        )
        self.steps = [(kind, f"{key}-{number}", words(random)) for number, kind in enumerate(kinds)]
        if size:
            self.steps.insert(random.randrange(len(self.steps) + 1), ("say", f"{key}-large", "x" * size))
        self.kinds = {name: random.choice(KINDS) for _, name, _ in self.steps}
        self.allowed = {name: random.random() < 0.5 for _, name, _ in self.steps}
        self.asked = f"{key}|{'y' * size}{words(random)}|"
        self.is_cancelled = random.random() < 0.2

    def answers(self):
        return [self.allowed[name] for kind, name, _ in self.steps if kind == "ask"]

    def expected(self):
        def of(*kinds):
            return [(name, text) for kind, name, text in self.steps if kind in kinds]

        refused = {name for name, _ in of("ask") if not self.allowed[name]}
        tools = [
            (name, self.kinds[name], "failed" if name in refused else "completed") for name, _ in of("tool", "ask")
        ]
        plans = [[(text, "pending")] for _, text in of("plan")]
        return {
            "asked": self.asked,
            "words": "".join(text for _, text in of("say")) + ("waiting" if self.is_cancelled else ""),
            "thoughts": "".join(text for _, text in of("think")),
            "plan": plans[-1] if plans else [],
            "tools": tools,
            "titles": [f"title of {name}" for name, *_ in tools],
            "diff": [(f"/work/{name}", None, text) for name, text in of("tool")],
            "answers": {name: self.allowed[name] for name, _ in of("ask")},
            "files": dict(of("write")),
            "read": dict(of("read")),
            "ran": {name: (name, 3) for name, _ in of("run")},
            "end": "cancelled" if self.is_cancelled else "end_turn",
        }


def words(random):
    return "a" + "".join(random.choices(LETTERS, k=random.randint(0, 20))) + "z"


class Player(Testy):
    """Does what the script says that a prompt names, and notes what it was answered."""

    def __init__(self, client, scripts):
        super().__init__(client)
        self.scripts = scripts
        self.notes = {key: {"answers": {}, "read": {}, "ran": {}} for key in scripts}

    async def answer(self, turn):
        self._touch(turn)
        script = self.scripts[turn.text.split("|")[0]]
        notes = self.notes[script.key]
        notes["asked"] = turn.text
        for kind, name, text in script.steps:
            await getattr(self, f"_{kind}")(turn, script, notes, name, text)
        if script.is_cancelled:
            await turn.say("waiting")
            await asyncio.Event().wait()

    async def _say(self, turn, script, notes, name, text):
        await turn.say(text)

    async def _think(self, turn, script, notes, name, text):
        await turn.think(text)

    async def _plan(self, turn, script, notes, name, text):
        await turn.plan(s.PlanEntry(content=text, priority="medium", status="pending"))

    async def _tool(self, turn, script, notes, name, text):
        async with turn.tool(f"title of {name}", kind=script.kinds[name], id=name) as call:
            await call.diff(f"/work/{name}", None, text)

    async def _ask(self, turn, script, notes, name, text):
        async with turn.tool(f"title of {name}", kind=script.kinds[name], id=name) as call:
            notes["answers"][name] = bool(await turn.ask(call))

    async def _read(self, turn, script, notes, name, text):
        notes["read"][name] = await turn.read(f"/work/{name}")

    async def _write(self, turn, script, notes, name, text):
        await turn.write(f"/work/{name}", text)

    async def _run(self, turn, script, notes, name, text):
        assert offered(turn.client.offers, "terminal")
        async with turn.terminal("sh", "-c", f"printf {name}; exit 3") as terminal:
            status = await terminal.wait()
            notes["ran"][name] = ((await terminal.output()).output, status.exit_code)


class RandomConversation(Between):
    """One or two sessions side by side, each with a turn or three, the large frames in the first."""

    def __init__(self, dialect, seed, size=0):
        random = Random(f"{dialect} {seed}")
        super().__init__(*random.sample((dialect, "v1"), 2))
        counts = [random.randint(1, 3) for _ in range(random.randint(1, 2))]
        self.sessions = [
            [Script(random, f"{seed}.{session}.{turn}", size * (session + turn == 0)) for turn in range(count)]
            for session, count in enumerate(counts)
        ]
        self.scripts = {script.key: script for session in self.sessions for script in session}
        self._answers = {}  # to the questions of each session, in their order

    def _agent(self, client):
        self.agents.append(Player(client, self.scripts))
        return self.agents[-1]

    async def seen(self):
        """Have it; gives what was seen of every turn, facet by facet."""
        steps = [step for script in self.scripts.values() for step in script.steps]
        files = {f"/work/{name}": text for kind, name, text in steps if kind == "read"}
        client = RecordingClient(permissions=self._choose, files=files)
        async with self.talking(client):
            sessions = await asyncio.gather(*(self._play(client, session) for session in self.sessions))
        for turn in (seen := {key: turn for session in sessions for key, turn in session.items()}).values():
            turn["files"] = {
                name: client.files.get(f"/work/{name}")
                for kind, name, _ in self.scripts[turn["key"]].steps
                if kind == "write"
            }
        return seen

    async def _play(self, client, scripts):
        session, seen = await client.new_session("/work"), {}
        self._answers[session.id] = iter([allowed for script in scripts for allowed in script.answers()])
        for script in scripts:
            prompt, updates = session.prompt(script.asked), []
            async for update in prompt:
                updates.append(update)
                if script.is_cancelled and spoken(update).endswith("waiting"):
                    session.cancel()
            told = of_transcript(Transcript(updates))
            told |= {"words": "".join(told["words"]), "thoughts": "".join(told["thoughts"])}
            end = {"key": script.key, "end": prompt.response.stop_reason}
            seen[script.key] = told | self.agent.notes[script.key] | end
        return seen

    def _choose(self, params):
        """By the order of a session's questions: not every dialect says what one is about."""
        wanted = "allow_once" if next(self._answers[params.session_id]) else "reject_once"
        return next(option.option_id for option in params.options if option.kind == wanted)


def spoken(update):
    content = getattr(update, "content", None)
    return content.text if isinstance(update, s.AgentMessageChunk) and isinstance(content, s.TextContent) else ""

"""`dragoman new agent NAME`: creates a project for a new agent, with a test that runs."""

import argparse
import re

from .complaint import complain
from .values import Commands

PROJECT = """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "{name}"
version = "0.1.0"
description = "An agent for any editor that speaks ACP"
requires-python = ">=3.11"
dependencies = ["dragoman"]

[project.scripts]
{name} = "{package}:main"
"""

README = """\
# {name}

An agent for any editor that speaks the Agent Client Protocol.

    python -m unittest                                   # its test
    dragoman run --agent "python -m {package}" "hello"   # talk to it
    pip install -e .                                     # then any editor can start it as `{name}`

Its code is in `{package}/agent.py`.
"""

AGENT = '''\
"""{name}: counts words, and notes the count in the file when it may."""

from dragoman import Agent, Turn, serve
from dragoman.schema import AvailableCommand, Implementation, UnstructuredCommandInput
from dragoman.store import durable


class {title}(Agent):
    """An agent is a class with one method to write: `answer`."""

    info = Implementation(name="{name}", version="0.1.0")
    commands = (
        AvailableCommand(
            name="count", description="Count the words of a file", input=UnstructuredCommandInput(hint="a file")
        ),
    )

    async def answer(self, turn: Turn) -> None:
        command, _, path = turn.text.partition(" ")
        if command != "/count" or not path:
            await turn.say(f"You said: {{turn.text}}\\n\\nTry `/count FILE`.")
            return
        text = await turn.read(path)  # as the editor has it, unsaved changes included
        count = len(text.split())
        await turn.say(f"{{path}} has {{count}} words.")
        noted = text + f"\\n{{count}} words\\n"
        async with turn.tool(f"Note the count in {{path}}", kind="edit", locations=[path]) as call:
            await call.diff(path, text, noted)  # shown before it is asked for
            if await turn.ask(call):
                await turn.write(path, noted)


def main() -> None:
    """Serve the agent over stdin and stdout, with sessions that survive."""
    serve(durable({title}))
'''

PACKAGE = '''\
"""{name}: an agent for any editor that speaks ACP."""

from .agent import {title}, main

__all__ = ["{title}", "main"]
'''

MAIN = '''\
"""`python -m {package}`"""

from . import main

main()
'''

TEST = '''\
"""The agent at one end of a wire, a client that records everything at the other."""

import unittest

from dragoman.schema import AgentMessageChunk, TextContent
from dragoman.testing import RecordingClient, pair

from {package} import {title}


class Works(unittest.IsolatedAsyncioTestCase):
    async def test_it_counts_and_notes_the_count_when_it_may(self) -> None:
        client = RecordingClient(files={{"/project/a.txt": "one two three"}}, permissions="allow")
        async with pair({title}, client):
            session = await client.new_session("/project")
            events = [event async for event in session.prompt("/count a.txt")]
        said = [event.content for event in events if isinstance(event, AgentMessageChunk)]
        self.assertIn(TextContent(text="a.txt has 3 words."), said)
        self.assertEqual(client.files["/project/a.txt"], "one two three\\n3 words\\n")

    async def test_it_writes_nothing_when_it_may_not(self) -> None:
        client = RecordingClient(files={{"/project/a.txt": "one two three"}}, permissions="reject")
        async with pair({title}, client):
            session = await client.new_session("/project")
            response = await session.prompt("/count a.txt")
        self.assertEqual(response.stop_reason, "end_turn")
        self.assertEqual(client.files["/project/a.txt"], "one two three")


if __name__ == "__main__":
    unittest.main()
'''

FILES = {
    "pyproject.toml": PROJECT,
    "README.md": README,
    "{package}/__init__.py": PACKAGE,
    "{package}/__main__.py": MAIN,
    "{package}/agent.py": AGENT,
    "test_{package}.py": TEST,
}


def add_to(commands: Commands) -> None:
    new = commands.add_parser("new", help="create a project for a new agent")
    new.add_argument("what", choices=["agent"], metavar="agent", help="the word agent")
    new.add_argument("name", metavar="NAME", help="name of the agent and of its directory")
    new.set_defaults(command=_make)


def _make(arguments: argparse.Namespace) -> int:
    from pathlib import Path

    name = arguments.name
    package = name.replace("-", "_")
    if why := _unusable(name, package):
        return complain(f"{name!r} cannot be an agent's name: {why}")
    root = Path(name)
    words = {"name": name, "package": package, "title": _title(package)}
    try:
        root.mkdir()
        for path, text in FILES.items():
            file = root / path.format(**words)
            file.parent.mkdir(exist_ok=True)
            file.write_text(text.format(**words), encoding="utf-8")
    except FileExistsError:
        return complain(f"there is already something called {name!r} here; choose another name")
    except OSError as exc:
        return complain(f"{exc.filename}: {exc.strerror}")
    print(f"Made {name}. Run its test, then talk to it:\n")
    print(f'    cd {name}\n    python -m unittest\n    dragoman run --agent "python -m {package}" hello\n')
    return 0


def _unusable(name: str, package: str) -> str | None:
    """Why an agent cannot have a name: its package must be importable and have a name of its own."""
    import keyword
    import sys
    from importlib.util import find_spec

    if not re.fullmatch(r"[a-z][a-z0-9]*([-_][a-z0-9]+)*", name) or keyword.iskeyword(package):
        return "use small letters, digits and dashes, such as my-agent"
    if package in sys.stdlib_module_names or find_spec(package):
        return f"Python has a module {package!r} already. Choose another name, such as my-{name}"
    return None


def _title(package: str) -> str:
    """The name of an agent's class, different from all classes that its modules import."""
    title = "".join(part.title() for part in package.split("_"))
    return title if title.endswith("Agent") and title != "Agent" else f"{title}Agent"

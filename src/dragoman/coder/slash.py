"""Slash commands: what the user can have done without asking the model, and what is sent to it in other words."""

import os
from collections.abc import Mapping, Sequence

from .. import schema as s
from ..turn import Turn
from .checkpoints import Change, patch
from .compacting import Compactor
from .context import Skill
from .conversation import Conversation
from .models import Models
from .modes import DEFAULT
from .options import REVIEWER, options

INIT = """\
Study this project: what it is, how it is laid out, how it is built, tested and checked, and which conventions its \
code follows. Then write AGENTS.md in the working directory (improve it if it is there): what an engineer new to \
the project needs to work in it, in at most 60 lines, nothing that any engineer knows anyway."""

OWN: Mapping[str, tuple[str, str]] = {
    "help": ("Say what there is", ""),
    "model": ("Show the models there are, or change to one", "provider:model"),
    "compact": ("Make the conversation shorter", ""),
    "diff": ("Show what was changed in this session", ""),
    "undo": ("Take back the changes of the last turn that made any", ""),
    "review": ("Have the reviewer look, without the model", "files, diff, staged; nothing: everything"),
    "init": ("Write AGENTS.md for this project", ""),
    "mcp": ("Show the MCP servers of this session", ""),
}


def commands(skills: Mapping[str, Skill]) -> list[s.AvailableCommand]:
    """All commands of a session: our own, and its skills."""
    own = [_command(name, description, hint) for name, (description, hint) in OWN.items()]
    return own + [
        _command(skill.name, skill.description, "what to do") for skill in skills.values() if skill.name not in OWN
    ]


def _command(name: str, description: str, hint: str) -> s.AvailableCommand:
    wanted = s.UnstructuredCommandInput(hint=hint) if hint else None
    return s.AvailableCommand(name=name, description=description, input=wanted)


def parsed(text: str) -> tuple[str, str]:
    """The name of a slash command and what follows it; no name when it is none."""
    if not text.startswith("/"):
        return "", text
    name, _, rest = text[1:].partition(" ")
    return name.strip(), rest.strip()


async def undo(turn: Turn, talk: Conversation) -> None:
    """Bring files back to what they were before the last turn that changed any."""
    undone = talk.place.checkpoints.undo()
    if not undone:
        await turn.say("There is nothing to undo.")
        return
    for path, change in undone.items():
        await _bring_back(turn, talk, path, change)
    names = ", ".join(f"`{talk.place.shown(path)}`" for path in undone)
    await turn.say(f"Brought back: {names}.")
    await talk.save()


async def _bring_back(turn: Turn, talk: Conversation, path: str, change: Change) -> None:
    place = talk.place
    place.seen.pop(path, None)  # the model has to read it again
    async with turn.tool(f"Undo {place.shown(path)}", kind="edit", locations=[path]) as call:
        now = await place.text(turn, path)
        await call.diff(path, now, change.before or "")
        # What someone else wrote since is theirs: they are asked.
        if now != change.after and not await turn.ask(call):
            return
        if change.before is not None:
            await place.put(turn, path, change.before)
        elif os.path.isfile(path):
            os.unlink(path)
        else:
            await place.put(turn, path, "")


async def diff(turn: Turn, talk: Conversation) -> None:
    """Show what was changed in the session."""
    changes = talk.place.checkpoints.changes()
    if not changes:
        await turn.say("Nothing was changed in this session.")
        return
    places = [s.ToolCallLocation(path=path) for path in changes]
    async with turn.tool("Changes of this session", kind="read", locations=places) as call:
        for path, change in changes.items():
            await call.diff(path, change.before, change.after or "")
    patches = "".join(patch(talk.place.shown(path), change) for path, change in changes.items())
    await turn.say(f"```diff\n{patches}```")


async def help_(turn: Turn, talk: Conversation) -> None:
    listed: Sequence[s.AvailableCommand] = commands(talk.skills)
    await turn.say("\n".join(f"- `/{command.name}`: {command.description}" for command in listed))


async def compact(turn: Turn, talk: Conversation, models: Models, instructions: str) -> None:
    asked = await models.get(talk.model)
    if asked is None or not talk.history:
        await turn.say("There is nothing to make shorter.")
        return
    await Compactor(turn, talk, asked).compact(instructions)
    await talk.save()
    await turn.say("The conversation was made shorter.")


async def model(turn: Turn, talk: Conversation, models: Models, wanted: str) -> None:
    """Show the models there are, or change to one of any name."""
    session = talk.session
    if not wanted:
        listed = "\n".join(f"- `{name}`" for name in [*models.known, REVIEWER])
        await turn.say(f"`{talk.model}` answers. There are:\n{listed}\n")
        return
    await models.get(wanted)  # before anything changes: it may not be there
    changed = options(session.mode or DEFAULT, wanted, models.known, str(session.config("effort")))
    await session.set_config_options(changed)
    talk.choices["model"] = talk.told_model = wanted
    await talk.save()
    await turn.say(f"`{wanted}` answers from now on.")


async def servers(turn: Turn, talk: Conversation) -> None:
    """Show the session's MCP servers and their tools."""
    await talk.equip(fetch=False)
    there = {server.name: server for server in talk.servers or ()}
    lines = []
    for config in turn.session.mcp_servers:
        server = there.get(config.name)
        tools = ", ".join(f"`{tool.name}`" for tool in server.tools) if server else "cannot be used"
        lines.append(f"- {config.name}: {tools}")
    await turn.say("\n".join(lines) or "This session has no MCP servers.")

"""Slash commands: some run without the model, others send it a prompt of their own."""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from .. import schema as s
from ..agent.turn import Turn
from .context.compacting import Compactor
from .context.instructions import Skill
from .conversation import Conversation
from .files.undo_journal import patch
from .files.undoing import Undone, redo_last_turn, told, told_again, undo_last_turn
from .model.retrying import Retries
from .modes import DEFAULT
from .options import REVIEWER, options
from .permissions import Cancelled

if TYPE_CHECKING:
    from .agent import Coder

INIT = """\
Study this project: what it is, how it is laid out, how it is built, tested and checked, and which conventions its \
code follows. Then write AGENTS.md in the working directory (improve it if it is there): what an engineer new to \
the project needs to work in it, in at most 60 lines, nothing that any engineer knows anyway."""


class SlashCommand(Struct, frozen=True):
    """A command of ours: its description, and the function that runs it."""

    description: str
    run: Callable[["Coder", Turn, Conversation, str], Awaitable[s.StopReason | None]]
    hint: str = ""


def commands(skills: Mapping[str, Skill]) -> list[s.AvailableCommand]:
    """All commands of a session: our own, and its skills."""
    own = [_described(name, command.description, command.hint) for name, command in OWN.items()]
    return own + [
        _described(skill.name, skill.description, skill.hint) for skill in skills.values() if skill.name not in OWN
    ]


def _described(name: str, description: str, hint: str) -> s.AvailableCommand:
    wanted = s.UnstructuredCommandInput(hint=hint) if hint else None
    return s.AvailableCommand(name=name, description=description, input=wanted)


def parsed(text: str) -> tuple[str, str]:
    """The name and the arguments of a slash command; the name is empty if the text is not a command."""
    if not text.startswith("/"):
        return "", text
    name, _, rest = text[1:].partition(" ")
    return name.strip(), rest.strip()


async def _undo(coder: "Coder", turn: Turn, conversation: Conversation, rest: str) -> s.StopReason | None:
    """Undo the last turn that changed files."""
    return await _reversed(
        turn, conversation, undo_last_turn(turn, conversation.place), told, "There is nothing to undo."
    )


async def _redo(coder: "Coder", turn: Turn, conversation: Conversation, rest: str) -> s.StopReason | None:
    """Redo the changes that were undone last."""
    return await _reversed(
        turn, conversation, redo_last_turn(turn, conversation.place), told_again, "There is nothing to redo."
    )


async def _reversed(
    turn: Turn,
    conversation: Conversation,
    work: Awaitable[Undone | None],
    sentences: Callable[[Undone], Iterator[str]],
    nothing: str,
) -> s.StopReason | None:
    """Undo or redo changes, and report the outcome for each file."""
    try:
        done = await work
    except Cancelled:
        return "cancelled"
    await turn.say(nothing if done is None else "\n\n".join(sentences(done)))
    await conversation.save()
    return None


async def _diff(coder: "Coder", turn: Turn, conversation: Conversation, rest: str) -> None:
    """Show the changes of the session."""
    changes = conversation.place.journal.changes()
    if not changes:
        await turn.say("Nothing was changed in this session.")
        return
    places = [s.ToolCallLocation(path=path) for path in changes]
    async with turn.tool("Changes of this session", kind="read", locations=places) as call:
        for path, change in changes.items():
            await call.diff(path, change.before, change.after)
    patches = "".join(patch(conversation.place.shown(path), change) for path, change in changes.items())
    await turn.say(f"```diff\n{patches}```")


async def _help(coder: "Coder", turn: Turn, conversation: Conversation, rest: str) -> None:
    listed = commands(conversation.skills)
    await turn.say("".join(f"- `/{command.name}`: {command.description}\n" for command in listed))


async def _compact(coder: "Coder", turn: Turn, conversation: Conversation, rest: str) -> None:
    asked = await coder.models.get(conversation.model)
    if asked is None or not conversation.history:
        await turn.say("There is nothing to make shorter.")
        return
    await Compactor(turn, conversation, asked, Retries(turn, coder.limits)).compact(
        coder.instructions(conversation)
    )
    await conversation.save()
    await turn.say("The conversation was made shorter.")


async def _model(coder: "Coder", turn: Turn, conversation: Conversation, wanted: str) -> None:
    """Show the available models, or change to a model by name."""
    session, models = conversation.session, coder.models
    if not wanted:
        listed = "\n".join(f"- `{name}`" for name in [*models.known, REVIEWER])
        await turn.say(f"`{conversation.model}` answers. There are:\n{listed}\n")
        return
    await models.get(wanted)  # before anything changes, because it may not exist
    changed = options(session.mode or DEFAULT, wanted, models.known, str(session.config("effort")))
    await session.set_config_options(changed)
    conversation.choices["model"] = conversation.told_model = wanted
    await conversation.save()
    await turn.say(f"`{wanted}` answers from now on.")


async def _servers(coder: "Coder", turn: Turn, conversation: Conversation, rest: str) -> None:
    """Show the session's MCP servers and their tools."""
    await conversation.load_tools(turn)
    there = {server.name: server for server in (conversation.servers.servers if conversation.servers else ())}
    lines = []
    for config in turn.session.mcp_servers:
        server = there.get(config.name)
        tools = ", ".join(f"`{tool.name}`" for tool in server.tools) if server else "cannot be used"
        lines.append(f"- {config.name}: {tools}")
    await turn.say("\n".join(lines) or "This session has no MCP servers.")


async def _review(coder: "Coder", turn: Turn, conversation: Conversation, rest: str) -> s.StopReason | None:
    return await coder.review(turn)


async def _init(coder: "Coder", turn: Turn, conversation: Conversation, rest: str) -> s.StopReason | None:
    return await coder.converse(turn, conversation, [s.TextContent(text=INIT)])


OWN: Mapping[str, SlashCommand] = {
    "help": SlashCommand("Say what there is", _help),
    "model": SlashCommand("Show the models there are, or change to one", _model, "provider:model"),
    "compact": SlashCommand("Make the conversation shorter", _compact),
    "diff": SlashCommand("Show the changes of this session", _diff),
    "undo": SlashCommand("Take back the changes of the last turn that made any", _undo),
    "redo": SlashCommand("Make the changes again that were taken back last", _redo),
    "review": SlashCommand(
        "Have the reviewer look, without the model", _review, "files, diff, staged; nothing: everything"
    ),
    "init": SlashCommand("Write AGENTS.md for this project", _init),
    "mcp": SlashCommand("Show the MCP servers of this session", _servers),
}

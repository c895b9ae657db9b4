"""Servers' prompts as slash commands: `/mcp:server:prompt` with arguments in order or by name."""

import shlex

from .. import schema as s
from .connections import McpFailure
from .listings import PromptInfo

PREFIX = "mcp:"
MAX_NAME = 200  # characters of a server's name, a prompt's and an argument's, as clients list them
MAX_TOLD = 1000  # characters of a description
MAX_HINT = 1000  # characters of the arguments' names together


def command_of(prompt: PromptInfo) -> s.AvailableCommand:
    """A prompt as a slash command in clients' lists."""
    words = (each.name if each.is_required else f"[{each.name}]" for each in prompt.arguments)
    hint = s.UnstructuredCommandInput(hint=" ".join(words)[:MAX_HINT]) if prompt.arguments else None
    told = prompt.description[:MAX_TOLD] or f"A prompt of {prompt.server[:MAX_NAME]}"
    return s.AvailableCommand(
        name=f"{PREFIX}{_plain(prompt.server)}:{_plain(prompt.name)}", description=told, input=hint
    )


def _plain(name: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in name[:MAX_NAME])


def arguments_of(prompt: PromptInfo, text: str) -> dict[str, str]:
    """The arguments in the text after a command; raises McpFailure for missing or extra ones."""
    try:
        words = shlex.split(text)
    except ValueError:  # an apostrophe, most likely
        words = text.split()
    names = [argument.name for argument in prompt.arguments]
    given: dict[str, str] = {}
    rest: list[str] = []
    for word in words:
        name, equals, value = word.partition("=")
        if equals and name in names:
            given[name] = value
        else:
            rest.append(word)
    free = [name for name in names if name not in given]
    for name, word in zip(free, rest, strict=False):
        given[name] = word
    if extra := rest[len(free) :]:
        if not free:
            raise McpFailure(f"{prompt.name} takes no argument {extra[0]!r}")
        given[free[-1]] = " ".join([given[free[-1]], *extra])
    if missing := [each.name for each in prompt.arguments if each.is_required and each.name not in given]:
        raise McpFailure(
            f"{prompt.name} needs {', '.join(missing)}: write /{command_of(prompt).name} {' '.join(names)}"
        )
    return given

"""What the user can call by name in a prompt."""

from collections.abc import Sequence

from ..base import Model, Raw, Sifted


class TextCommandInput(Model, tag_field="type", tag="text", kw_only=True):
    """All that follows the command's name is its input; `hint` shows while there is none."""

    hint: str


AvailableCommandInput = TextCommandInput | Raw


class Command(Model, tag_field="type", tag="command", kw_only=True):
    """A slash command, sent as the text `/name input` of a prompt."""

    name: str
    description: str
    input: AvailableCommandInput | None = None


AvailableCommand = Command | Raw


class AvailableCommandsUpdate(Model, tag_field="sessionUpdate", tag="available_commands_update", kw_only=True):
    """All slash commands of the session as they are now."""

    available_commands: Sifted[Sequence[AvailableCommand]]

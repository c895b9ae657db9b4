"""What the user can set in a session: options to choose from, switches to flip."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from msgspec import ValidationError

from .base import UNSET, Lenient, Model, Raw, Shape, UnsetType
from .protocol import SessionId

SessionConfigId = str
SessionConfigValueId = str
SessionConfigGroupId = str
SessionConfigOptionCategory = Literal["mode", "model", "model_config", "thought_level"] | str


class SessionConfigSelectOption(Model, kw_only=True):
    """A value to choose and its label."""

    value: SessionConfigValueId
    name: str
    description: str | None = None


class SessionConfigSelectGroup(Model, kw_only=True):
    """Values to choose from, under a heading."""

    group: SessionConfigGroupId
    name: str
    options: Lenient[Sequence[SessionConfigSelectOption]]


if TYPE_CHECKING:
    SessionConfigSelectEntry = SessionConfigSelectOption | SessionConfigSelectGroup
else:

    class SessionConfigSelectEntry(Shape, keys={"group": SessionConfigSelectGroup}, bare=SessionConfigSelectOption):
        """A list holds options or groups of them; nothing but the key `group` tells which."""


SessionConfigSelectOptions = Sequence[SessionConfigSelectEntry]


class _Described(Model, kw_only=True):
    """What every kind of option has."""

    id: SessionConfigId
    name: str
    description: str | None = None
    category: SessionConfigOptionCategory | None = None


class SessionConfigSelect(_Described, tag_field="type", tag="select", kw_only=True):
    """An option of a session with several values to choose from."""

    current_value: SessionConfigValueId
    options: SessionConfigSelectOptions


class SessionConfigBoolean(_Described, tag_field="type", tag="boolean", kw_only=True):
    """A switch of a session."""

    current_value: bool


SessionConfigOption = SessionConfigSelect | SessionConfigBoolean | Raw


class SetSessionConfigOptionRequest(Model, kw_only=True):
    """A value by its id, or with `type="boolean"` a truth value."""

    session_id: SessionId
    config_id: SessionConfigId
    value: bool | SessionConfigValueId
    # One struct for two arms: an id has no type, and beside a string any type is ignored.
    type: Literal["boolean"] | str | UnsetType = UNSET

    def __post_init__(self) -> None:
        if isinstance(self.value, bool) and self.type != "boolean":
            raise ValidationError('A truth value needs the type "boolean"')


class SetSessionConfigOptionResponse(Model, kw_only=True):
    """All options as they are now: one setting may change the others."""

    config_options: Lenient[Sequence[SessionConfigOption]]

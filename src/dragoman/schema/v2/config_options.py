"""What the user can set in a session, its mode too: options to choose from, switches to flip."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import Meta, ValidationError

from ..base import Lenient, Model, Raw, Shape, Sifted
from ..config_options import (
    SessionConfigGroupId,
    SessionConfigId,
    SessionConfigOptionCategory,
    SessionConfigSelectOption,
    SessionConfigValueId,
)
from ..protocol import SessionId


class SessionConfigSelectGroup(Model, kw_only=True):
    """Values to choose from, under a heading."""

    group_id: SessionConfigGroupId
    name: str
    options: Lenient[Annotated[Sequence[SessionConfigSelectOption], Meta(min_length=1)]]


if TYPE_CHECKING:
    SessionConfigSelectEntry = SessionConfigSelectOption | SessionConfigSelectGroup
else:

    class SessionConfigSelectEntry(
        Shape, keys={"groupId": SessionConfigSelectGroup}, bare=SessionConfigSelectOption
    ):
        """A list holds options or groups of them; nothing but the key `groupId` tells which."""


SessionConfigSelectOptions = Sequence[SessionConfigSelectEntry]


class _Described(Model, kw_only=True):
    """What every kind of option has."""

    config_id: SessionConfigId
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
    """A value and what it is: the id of a choice, a truth value, or what a type nobody knows yet takes."""

    session_id: SessionId
    config_id: SessionConfigId
    type: Literal["id", "boolean"] | str
    value: Any

    def __post_init__(self) -> None:
        wanted = {"id": str, "boolean": bool}.get(self.type)
        if wanted is not None and not isinstance(self.value, wanted):
            raise ValidationError(f"A value of the type {self.type!r} is no {type(self.value).__name__}")


class SetSessionConfigOptionResponse(Model, kw_only=True):
    """All options as they are now: one setting may change the others."""

    config_options: Sifted[Sequence[SessionConfigOption]]

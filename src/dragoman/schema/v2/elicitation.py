"""Questions to the user in the middle of the work: a form to fill in, or a page to visit."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import Meta, ValidationError

from ..base import UNSET, Exact, Int64, JsonObject, Model, Raw, Shape, UInt32, UInt64, UnsetType
from ..elicitation import (
    BooleanPropertySchema,
    ElicitationCancel,
    ElicitationDecline,
    ElicitationId,
    ElicitationSchemaType,
    EnumOption,
    IntegerPropertySchema,
    NumberPropertySchema,
)
from ..protocol import SessionId
from ..tools import ToolCallId
from .base import RequestId

StringFormat = Literal["email", "uri", "date", "date-time"] | str
ElicitationContentValue = str | Int64 | float | bool | Sequence[str] | Any


# ── a form, in a small part of JSON Schema ────────────────────────────────────────────────────────


class StringPropertySchema(Model, tag_field="type", tag="string", kw_only=True):
    """A line of text, or one choice out of `enum` or `one_of`."""

    title: str | None = None
    description: str | None = None
    min_length: Exact[UInt32 | None] = None
    max_length: Exact[UInt32 | None] = None
    pattern: Exact[str | None] = None
    format: Exact[StringFormat | None] = None
    default: str | None = None
    enum: Exact[Annotated[Sequence[str], Meta(min_length=1)] | None] = None
    one_of: Exact[Annotated[Sequence[EnumOption], Meta(min_length=1)] | None] = None


class StringMultiSelectItems(Model, tag_field="type", tag="string", kw_only=True):
    """Choices whose values are also their labels."""

    enum: Annotated[Sequence[str], Meta(min_length=1)]


class TitledMultiSelectItems(Model, kw_only=True):
    """Choices with a label each."""

    any_of: Annotated[Sequence[EnumOption], Meta(min_length=1)]


if TYPE_CHECKING:
    MultiSelectItems = StringMultiSelectItems | TitledMultiSelectItems | JsonObject
else:

    class MultiSelectItems(
        Shape,
        tag="type",
        tagged=(StringMultiSelectItems,),
        keys={"anyOf": TitledMultiSelectItems},
        bare=dict,
    ):
        """Titled items have no `type`; a type we do not know stays a plain object."""


class MultiSelectPropertySchema(Model, tag_field="type", tag="array", kw_only=True):
    """Any number of choices."""

    items: MultiSelectItems
    title: str | None = None
    description: str | None = None
    min_items: Exact[UInt64 | None] = None
    max_items: Exact[UInt64 | None] = None
    default: Sequence[str] | None = None


ElicitationPropertySchema = (
    StringPropertySchema
    | NumberPropertySchema
    | IntegerPropertySchema
    | BooleanPropertySchema
    | MultiSelectPropertySchema
    | Raw
)


class ElicitationSchema(Model, kw_only=True):
    """The form: its fields by name, and which of them must be filled in."""

    type: ElicitationSchemaType
    properties: Mapping[str, ElicitationPropertySchema]
    required: Exact[Sequence[str] | None] = None
    title: str | None = None
    description: str | None = None


# ── the question and its answer ───────────────────────────────────────────────────────────────────


class _Elicitation(Model, kw_only=True):
    """A question on behalf of a session, or of one of its tool calls, or of a request outside any session."""

    message: str
    # One struct for two untagged scopes.
    session_id: SessionId | None = None
    tool_call_id: ToolCallId | None = None
    request_id: RequestId | UnsetType = UNSET

    def __post_init__(self) -> None:
        if self.session_id is None and self.request_id is UNSET:
            raise ValidationError("Object needs `sessionId` or `requestId`")


class FormElicitation(_Elicitation, tag_field="mode", tag="form", kw_only=True):
    """Asks the user to fill in a form."""

    requested_schema: ElicitationSchema


class UrlElicitation(_Elicitation, tag_field="mode", tag="url", kw_only=True):
    """Where secrets are asked for: what the user enters there never passes through the client."""

    elicitation_id: ElicitationId
    url: str


CreateElicitationRequest = FormElicitation | UrlElicitation | Raw


class ElicitationAcceptAction(Model, tag_field="action", tag="accept", kw_only=True):
    """The form's values; for a page only that the user agreed to open it."""

    content: Exact[Mapping[str, ElicitationContentValue] | None] = None


CreateElicitationResponse = ElicitationAcceptAction | ElicitationDecline | ElicitationCancel | Raw

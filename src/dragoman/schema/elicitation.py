"""Questions to the user in the middle of the work: a form to fill in, or a page to visit."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from msgspec import ValidationError, field

from .base import UNSET, Exact, Int64, JsonObject, Model, Raw, RequestId, Shape, UInt32, UInt64, UnsetType
from .protocol import SessionId
from .tools import ToolCallId

ElicitationId = str
StringFormat = Literal["email", "uri", "date", "date-time"]
ElicitationSchemaType = Literal["object"]
ElicitationContentValue = str | Int64 | float | bool | Sequence[str]


# ── a form, in a small part of JSON Schema ────────────────────────────────────────────────────────


class EnumOption(Model, kw_only=True):
    """A value to choose and the words to show for it."""

    const: str
    title: str
    description: str | None = None


class StringPropertySchema(Model, tag_field="type", tag="string", kw_only=True):
    """A line of text, or one choice out of `enum` or `one_of`."""

    title: str | None = None
    description: str | None = None
    min_length: Exact[UInt32 | None] = None
    max_length: Exact[UInt32 | None] = None
    pattern: Exact[str | None] = None
    format: Exact[StringFormat | None] = None
    default: str | None = None
    enum: Exact[Sequence[str] | None] = None
    one_of: Exact[Sequence[EnumOption] | None] = None


class NumberPropertySchema(Model, tag_field="type", tag="number", kw_only=True):
    """A field for a number."""

    title: str | None = None
    description: str | None = None
    minimum: Exact[float | None] = None
    maximum: Exact[float | None] = None
    default: float | None = None


class IntegerPropertySchema(Model, tag_field="type", tag="integer", kw_only=True):
    """A field for a whole number."""

    title: str | None = None
    description: str | None = None
    minimum: Exact[Int64 | None] = None
    maximum: Exact[Int64 | None] = None
    default: Int64 | None = None


class BooleanPropertySchema(Model, tag_field="type", tag="boolean", kw_only=True):
    """A field that is on or off."""

    title: str | None = None
    description: str | None = None
    default: bool | None = None


class StringMultiSelectItems(Model, tag_field="type", tag="string", kw_only=True):
    """Choices whose values are also their labels."""

    enum: Sequence[str]


class TitledMultiSelectItems(Model, kw_only=True):
    """Choices with a label each."""

    any_of: Sequence[EnumOption]


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


# Readers may miss these two, senders must write them: msgspec leaves out a plain default, never a made one.
def _object() -> ElicitationSchemaType:
    return "object"


def _no_properties() -> dict[str, ElicitationPropertySchema]:
    return {}


class ElicitationSchema(Model, kw_only=True):
    """The form: its fields by name, and which of them must be filled in."""

    type: ElicitationSchemaType = field(default_factory=_object)
    properties: Exact[Mapping[str, ElicitationPropertySchema]] = field(default_factory=_no_properties)
    required: Exact[Sequence[str] | None] = None
    title: str | None = None
    description: str | None = None


# ── the question and its answer ───────────────────────────────────────────────────────────────────


class _Elicitation(Model, kw_only=True):
    """A question on behalf of a session, or of one of its tool calls, or of a request outside any session."""

    message: str
    # One struct for two untagged scopes; null is a request id too, so only UNSET means none.
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


class ElicitationDecline(Model, tag_field="action", tag="decline"):
    """The user said no."""


class ElicitationCancel(Model, tag_field="action", tag="cancel"):
    """The user said nothing."""


CreateElicitationResponse = ElicitationAcceptAction | ElicitationDecline | ElicitationCancel | Raw


class CompleteElicitationNotification(Model, kw_only=True):
    """The user has done what the page asked for."""

    elicitation_id: ElicitationId

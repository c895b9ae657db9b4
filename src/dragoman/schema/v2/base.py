"""What v2 types are made of besides what v1 types are."""

from typing import Annotated

from msgspec import Meta, field

from ..base import UNSET, Bare, JsonObject, UnsetType

__all__ = ["AbsolutePath", "MediaType", "Patch", "Positive16", "Positive32", "RequestId"]

AbsolutePath = str
MediaType = str
RequestId = int | str  # never null: only the answer to what could not be read has none

Positive16 = Annotated[int, Meta(ge=1, le=2**16 - 1)]
Positive32 = Annotated[int, Meta(ge=1, le=2**32 - 1)]


class Patch(Bare, kw_only=True):
    """A change to something that has an id: what is left out stays as it was, null clears, a value replaces.

    A `_meta` object is the exception: it changes the keys it names and no others.
    """

    meta: JsonObject | UnsetType | None = field(default=UNSET, name="_meta")

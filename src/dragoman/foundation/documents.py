"""JSON values in Python, and functions that read a document whose shape has not been checked.

The readers raise TypeError for a value of another type, so code that reads a peer's document needs one `except`
around it and no check at every step.
"""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

# Read-only, so that a `dict[str, str]` or a list of documents is JSON as it is.
Json: TypeAlias = bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"] | None
Document: TypeAlias = dict[str, Json]


def document(value: object) -> Document:
    """A JSON object."""
    if not isinstance(value, dict):
        raise TypeError(f"an object is needed, not {type(value).__name__}")
    return value


def elements(value: object) -> list[Json]:
    """A JSON array."""
    if not isinstance(value, list):
        raise TypeError(f"an array is needed, not {type(value).__name__}")
    return value


def documents(value: object) -> list[Document]:
    """A JSON array of objects."""
    return [document(item) for item in elements(value)]


def documents_in(value: object) -> list[Document]:
    """The objects in a JSON array; none if the value is not an array."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def strings_in(value: object) -> list[str]:
    """The strings in a JSON array; none if the value is not an array."""
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def string(value: object) -> str:
    """A JSON string."""
    if not isinstance(value, str):
        raise TypeError(f"a string is needed, not {type(value).__name__}")
    return value


def number(value: object) -> int | float:
    """A JSON number."""
    if not isinstance(value, int | float):
        raise TypeError(f"a number is needed, not {type(value).__name__}")
    return value


def members(value: object) -> Document:
    """The members of an object; none if the value is missing, null or not an object."""
    return value if isinstance(value, dict) else {}

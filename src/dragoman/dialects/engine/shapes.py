"""Shapes: the two forms of one kind of value.  Dialects build their tables from them.

A shape translates in both directions, so that a table states each fact once.  A value that version 1 has no field
for is carried in `_meta` and restored from there; a value that had to be made up is marked, and left out on the way
back.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, overload

from ...foundation.documents import Document, Json, document, documents, elements, members, string

if TYPE_CHECKING:
    from .translator import Translator

CARRIED = "dragoman.dialect"  # the member of `_meta`
MESSAGE_ID = "dragoman.messageId"  # in the `_meta` of a prompt: the id that it has when the history is sent again
OMITTED: Document = {}  # a shape gives this object for a member that is to be left out
MADE_UP = "+"  # in the carried values: the members that were made up


class Shape:
    """A value that has the same form in both."""

    def inward(self, value: Json, t: "Translator") -> Json:
        """The value in the form of version 1."""
        return value

    def outward(self, value: Json, t: "Translator") -> Json:
        """The value in the form of the dialect."""
        return value


SAME = Shape()
# A value and its dialect's translator -> the value in the other form.
Turn: TypeAlias = Callable[[Json, Any], Json]
DocumentTurn: TypeAlias = Callable[[Document, Any], Json]
Default: TypeAlias = Json | DocumentTurn


class ValuePair(Shape):
    """A shape made of two functions of a value."""

    def __init__(self, inward: Turn, outward: Turn) -> None:
        self._inward, self._outward = inward, outward

    def inward(self, value: Json, t: "Translator") -> Json:
        return self._inward(value, t)

    def outward(self, value: Json, t: "Translator") -> Json:
        return self._outward(value, t)


class Pair(ValuePair):
    """A shape made of two functions of an object."""

    def __init__(self, inward: DocumentTurn, outward: DocumentTurn) -> None:
        super().__init__(lambda value, t: inward(document(value), t), lambda value, t: outward(document(value), t))


class Empty(Shape):
    """An empty result: an object in version 1, null in the dialect."""

    def inward(self, value: Json, t: "Translator") -> Json:
        return {} if value is None else value

    def outward(self, value: Json, t: "Translator") -> Json:
        return None if value == {} else value


class Items(Shape):
    """A list whose elements have one shape."""

    def __init__(self, item: Shape) -> None:
        self._item = item

    def inward(self, value: Json, t: "Translator") -> Json:
        return [self._item.inward(item, t) for item in value] if isinstance(value, list) else value

    def outward(self, value: Json, t: "Translator") -> Json:
        return [self._item.outward(item, t) for item in value] if isinstance(value, list) else value


class Words(Shape):
    """The words of an enumeration; a word that the dialect lacks becomes the nearest one, and counts as a loss."""

    def __init__(self, inward: Mapping[str, str], lost: Mapping[str, str] | None = None, row: str = "") -> None:
        self._inward = dict(inward)
        self._outward = {canonical: word for word, canonical in reversed(list(inward.items()))}
        self._lost, self._row = lost or {}, row

    def inward(self, value: Json, t: "Translator") -> Json:
        return self._inward.get(value, value) if isinstance(value, str) else value

    def outward(self, value: Json, t: "Translator") -> Json:
        if isinstance(value, str) and value in self._lost:
            t.lose(self._row)
        return self.nearest(value)

    def nearest(self, value: Json) -> Json:
        """The dialect's nearest word, without counting a loss."""
        if not isinstance(value, str):
            return value
        return self._lost[value] if value in self._lost else self._outward.get(value, value)


class Fields(Shape):
    """An object, member by member.

    `names` maps the dialect's names to those of version 1 where they differ; `shapes` go by the name in version 1.
    Version 1 has no field for `carried` members, and the dialect has none for `lost` members; each of these names
    its row of the losses, or none where the value is known anyway.
    Missing members are made up: `given` inward, `said` outward, each a value or a function of the object.
    """

    def __init__(
        self,
        names: Mapping[str, str] | None = None,
        shapes: Mapping[str, Shape] | None = None,
        *,
        carried: Sequence[str] = (),
        lost: Mapping[str, str | None] | None = None,
        given: Mapping[str, Default] | None = None,
        said: Mapping[str, Default] | None = None,
    ) -> None:
        self._names = names or {}
        self._back = {canonical: word for word, canonical in self._names.items()}
        self._shapes = shapes or {}
        self._carried, self._lost = frozenset(carried), lost or {}
        self._given, self._said = given or {}, said or {}

    @overload
    def inward(self, value: Document, t: "Translator") -> Document: ...
    @overload
    def inward(self, value: Json, t: "Translator") -> Json: ...
    def inward(self, value: Json, t: "Translator") -> Json:
        if not isinstance(value, dict):
            return value
        canonical: Document = {}
        kept: Document = {}
        for name, member in value.items():
            if name in self._carried:
                kept[name] = member
                continue
            home = self._names.get(name, name)
            if shape := self._shapes.get(home):
                canonical[home] = shape.inward(member, t)
                if isinstance(shape, Words) and shape.nearest(canonical[home]) != member:
                    kept[name] = member
            else:
                canonical[home] = member
        made_up = [name for name in self._given if name not in canonical]
        for name in made_up:
            canonical[name] = _made(self._given[name], value, t)
        if made_up or self._said:  # an object that came from the dialect needs nothing added on its way back
            kept[MADE_UP] = [*made_up]
        return carry(canonical, kept, t) if kept else canonical

    @overload
    def outward(self, value: Document, t: "Translator") -> Document: ...
    @overload
    def outward(self, value: Json, t: "Translator") -> Json: ...
    def outward(self, value: Json, t: "Translator") -> Json:
        if not isinstance(value, dict):
            return value
        value, kept = carried(value, t)
        added = {} if MADE_UP in kept else self._said
        made_up = elements(kept.pop(MADE_UP, []))
        said: Document = {}
        for name, member in value.items():
            if name in made_up:
                continue
            if name in self._lost:
                row = self._lost[name]
                if row and member is not None and member != [] and member != {}:
                    t.lose(row)
                continue
            shape, word = self._shapes.get(name), self._back.get(name, name)
            if isinstance(shape, Words) and word in kept and shape.inward(kept[word], t) == member:
                said[word] = kept.pop(word)
            else:
                said[word] = shape.outward(member, t) if shape else member
                if said[word] is OMITTED:
                    del said[word]
        for name, default in added.items():
            if name not in said and name not in kept:
                said[name] = _made(default, value, t)
        return {**said, **kept}


class Variants(Shape):
    """An object of one of several kinds; an object of an unlisted kind is not changed."""

    def __init__(self, tag: str, kinds: Mapping[str, Shape]) -> None:
        self._tag, self._kinds = tag, kinds

    def inward(self, value: Json, t: "Translator") -> Json:
        return self._kind(value).inward(value, t)

    def outward(self, value: Json, t: "Translator") -> Json:
        return self._kind(value).outward(value, t)

    def _kind(self, value: Json) -> Shape:
        tag = value.get(self._tag) if isinstance(value, dict) else None
        return self._kinds.get(tag, SAME) if isinstance(tag, str) else SAME


def carry(value: Mapping[str, Json], kept: Mapping[str, Json], t: "Translator") -> Document:
    """Put into `_meta` the values that version 1 has no field for."""
    meta = dict(members(value.get("_meta")))
    meta[CARRIED] = {**members(meta.get(CARRIED)), t.name: {**kept}}
    return {**value, "_meta": meta}


def carried(value: Document, t: "Translator") -> tuple[Document, Document]:
    """Take this dialect's values out of `_meta`; returns the object without them, and the values."""
    meta = value.get("_meta")
    ours = meta.get(CARRIED) if isinstance(meta, dict) else None
    kept = ours.get(t.name) if isinstance(ours, dict) else None
    if not isinstance(meta, dict) or not isinstance(ours, dict) or not isinstance(kept, dict):
        return value, {}
    others = {name: other for name, other in ours.items() if name != t.name}
    meta = {name: member for name, member in meta.items() if name != CARRIED}
    if others:
        meta[CARRIED] = others
    rest = {name: member for name, member in value.items() if name != "_meta"}
    if meta:
        rest["_meta"] = meta
    return rest, dict(kept)


def meta_of(value: Json) -> Document:
    """The `_meta` of an object, to be put on the object that replaces it."""
    return {"_meta": value["_meta"]} if isinstance(value, dict) and value.get("_meta") else {}


def _made(default: Default, value: Document, t: "Translator") -> Json:
    return default(value, t) if callable(default) else default


class NamedValues(Shape):
    """Pairs of a name and a value: a list of objects in version 1, one object in the dialect."""

    def __init__(self, row: str) -> None:
        self._row = row

    def inward(self, value: Json, t: "Translator") -> Json:
        if not isinstance(value, dict):
            return value
        return [{"name": name, "value": member} for name, member in value.items()]

    def outward(self, value: Json, t: "Translator") -> Json:
        if not isinstance(value, list):
            return value
        named = documents(value)
        said = {string(item["name"]): item["value"] for item in named}
        if len(said) < len(value) or any(item.get("_meta") for item in named):
            t.lose(self._row)
        return said


def basename(path: Json) -> str:
    """The last part of a path or a URI."""
    return str(path).rstrip("/").rpartition("/")[2] or str(path)


def text_of(blocks: Json) -> str:
    """The text in a list of content blocks."""
    given = elements(blocks or [])
    return "\n".join(string(block["text"]) for block in given if isinstance(block, dict) and "text" in block)


def tool_text(call: Document) -> str:
    """The text in the content of a tool call."""
    contents = documents(call.get("content") or [])
    return text_of([content["content"] for content in contents if content.get("type") == "content"])


def command_line(params: Document) -> str:
    """The command of a terminal as one line of text."""
    return " ".join(string(word) for word in [params["command"], *elements(params.get("args") or [])])


SIGNALS = {"SIGHUP": 1, "SIGINT": 2, "SIGQUIT": 3, "SIGABRT": 6, "SIGKILL": 9, "SIGSEGV": 11, "SIGTERM": 15}


def exit_code(status: Document) -> int:
    """The exit code of a command; for a killed one, 128 and the signal, as shells report it."""
    code = status.get("exitCode")
    return code if isinstance(code, int) else 128 + SIGNALS.get(str(status.get("signal")), 0)

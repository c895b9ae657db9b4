"""An agent's form: one field per property, checked before the values are sent."""

import math
import re
from collections.abc import Mapping

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Checkbox, Input, SelectionList, Static
from textual.widgets.selection_list import Selection

from .... import schema as s
from ...legible import one_line
from ..plain_input import PlainInput
from ..words import line, shown
from .ticking import TickBox, TickList

Value = s.ElicitationContentValue
FORMATS = {
    "email": re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+"),
    "uri": re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:\S+"),
    "date": re.compile(r"\d{4}-\d{2}-\d{2}"),
    "date-time": re.compile(r"\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?([Zz]|[+-]\d{2}:\d{2})?"),
}


class FormFields(Vertical):
    """The fields of a form; `Filled` carries the values, or None if the user declined."""

    DEFAULT_CSS = """
    FormFields { height: auto; width: 1fr; }
    FormFields > .label { margin-top: 1; width: 1fr; height: auto; }
    FormFields > .wrong { color: $bad; width: 1fr; height: auto; display: none; }
    FormFields PlainInput, FormFields SelectionList { width: 1fr; max-width: 70; height: auto; max-height: 8; }
    FormFields PlainInput { border: none; border-left: outer $line; background: $raised; height: 1; }
    FormFields PlainInput:focus { border: none; border-left: outer $moving; }
    FormFields SelectionList { border: none; border-left: outer $line; background: $raised; padding: 0; }
    FormFields SelectionList:focus { border: none; border-left: outer $moving; }
    """
    BINDINGS = [
        Binding("ctrl+s", "send", "send", show=False, priority=True),
        Binding("ctrl+d", "decline", "decline", show=False, priority=True),
    ]

    class Filled(Message):
        """The user filled in the form, or declined."""

        def __init__(self, content: Mapping[str, Value] | None) -> None:
            super().__init__()
            self.content = content

    def __init__(self, form: s.ElicitationSchema) -> None:
        super().__init__()
        self._form = form
        self._required = set(form.required or ())
        self._fields: dict[str, Input | Checkbox | SelectionList[str]] = {}
        self._wrong = Static(Content(""), classes="wrong")

    def compose(self) -> ComposeResult:
        yield self._wrong
        for name, schema in self._form.properties.items():
            if isinstance(schema, s.Raw):
                yield Static(Content.styled(f"{name}: a field of a kind this version does not know", "$quiet"))
                continue
            mark = " *" if name in self._required else ""
            title = line(schema.title or name, style="bold")
            yield Static(
                Content.assemble(title, (mark, "$warn"), "  ", shown(schema.description or "", "$quiet")),
                classes="label",
            )
            field = self._fields[name] = _field_for(schema)
            yield field

    def on_mount(self) -> None:
        self.call_after_refresh(self.focus_first)

    def focus_first(self) -> None:
        """Focus the first field."""
        if self._fields and self.display:
            next(iter(self._fields.values())).focus()

    def on_input_submitted(self) -> None:
        self.screen.focus_next()

    def action_decline(self) -> None:
        """Decline the form."""
        self.post_message(self.Filled(None))

    def action_send(self) -> None:
        """Send the values if they are valid; otherwise show what is wrong."""
        content, wrong = dict[str, Value](), list[str]()
        for name, widget in self._fields.items():
            schema = self._form.properties[name]
            try:
                value = _value_of(schema, widget)
                if value is None and name in self._required:
                    raise ValueError("has to be filled in")
                if value is not None:
                    content[name] = value
            except ValueError as exc:
                wrong.append(f"{getattr(schema, 'title', None) or name} {exc}")
        self._wrong.update(shown("\n".join(wrong)))
        self._wrong.display = bool(wrong)
        if not wrong:
            self.post_message(self.Filled(content))


def _field_for(schema: s.ElicitationPropertySchema) -> "Input | Checkbox | SelectionList[str]":
    match schema:
        case s.BooleanPropertySchema(default=default):
            return TickBox(Content("yes"), value=bool(default), compact=True)
        case s.StringPropertySchema() if choices := _choices(schema):
            return _OneOf(*(Selection(line(title, 60), value, value == schema.default) for value, title in choices))
        case s.MultiSelectPropertySchema(items=items, default=default):
            chosen = set(default or ())
            return TickList(*(Selection(line(t, 60), v, v in chosen) for v, t in _items(items)))
        case s.StringPropertySchema() | s.NumberPropertySchema() | s.IntegerPropertySchema():
            default_text = "" if schema.default is None else one_line(str(schema.default))
            return PlainInput(default_text, placeholder=_hint(schema))
    return PlainInput()


class _OneOf(TickList):
    """A list with a single choice: ticking a box unticks the others."""

    def on_selection_list_selection_toggled(self, message: SelectionList.SelectionToggled[str]) -> None:
        chosen = message.selection.value
        for value in list(self.selected):
            if value != chosen:
                self.deselect(value)


def _choices(schema: s.StringPropertySchema) -> list[tuple[str, str]]:
    if schema.one_of:
        return [(option.const, option.title) for option in schema.one_of]
    return [(value, value) for value in schema.enum or ()]


def _items(items: object) -> list[tuple[str, str]]:
    match items:
        case s.StringMultiSelectItems(enum=values):
            return [(value, value) for value in values]
        case s.TitledMultiSelectItems(any_of=options):
            return [(option.const, option.title) for option in options]
    return []


def _hint(schema: s.StringPropertySchema | s.NumberPropertySchema | s.IntegerPropertySchema) -> str:
    match schema:
        case s.StringPropertySchema(format=format) if format:
            return {"date": "2026-01-31", "date-time": "2026-01-31T12:00:00Z", "uri": "https://…"}.get(format, "")
        case s.NumberPropertySchema() | s.IntegerPropertySchema():
            low, high = schema.minimum, schema.maximum
            return (
                f"{'' if low is None else low} … {'' if high is None else high}"
                if (low, high) != (None, None)
                else ""
            )
    return ""


def _value_of(schema: s.ElicitationPropertySchema, widget: Widget) -> Value | None:
    """The value that the user entered; raises ValueError with the reason if the form does not accept it."""
    if isinstance(widget, Checkbox):
        return widget.value
    if isinstance(widget, SelectionList):
        chosen: list[str] = list(widget.selected)
        if not isinstance(schema, s.MultiSelectPropertySchema):
            return chosen[0] if chosen else None
        low, high = schema.min_items or 0, schema.max_items
        if len(chosen) < low or (high is not None and len(chosen) > high):
            raise ValueError(f"takes {low} to {'any number' if high is None else high} choices")
        return chosen
    assert isinstance(widget, Input)
    text = widget.value.strip()
    if not text:
        return None
    match schema:
        case s.NumberPropertySchema() | s.IntegerPropertySchema():
            return _number(schema, text)
        case s.StringPropertySchema():
            return _checked(schema, text)
    return text


def _number(schema: s.NumberPropertySchema | s.IntegerPropertySchema, text: str) -> float | int:
    try:
        value = int(text) if isinstance(schema, s.IntegerPropertySchema) else float(text)
    except ValueError:
        raise ValueError("takes a number") from None
    if not math.isfinite(value):
        raise ValueError("takes a number")
    if schema.minimum is not None and value < schema.minimum:
        raise ValueError(f"is at least {schema.minimum}")
    if schema.maximum is not None and value > schema.maximum:
        raise ValueError(f"is at most {schema.maximum}")
    return value


def _checked(schema: s.StringPropertySchema, text: str) -> str:
    if schema.min_length is not None and len(text) < schema.min_length:
        raise ValueError(f"has at least {schema.min_length} characters")
    if schema.max_length is not None and len(text) > schema.max_length:
        raise ValueError(f"has at most {schema.max_length} characters")
    if schema.format and not FORMATS[schema.format].fullmatch(text):
        raise ValueError(f"is not a valid {schema.format}")
    return text  # the agent checks the pattern: an untrusted expression could run for hours

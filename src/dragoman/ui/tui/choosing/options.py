"""The lists of models, modes and options of a session."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from .... import schema as s
from ...model import intents as i
from ...model.conversation import ConversationModel
from ..header import option_name
from ..words import line
from .picker import Item, Picker

if TYPE_CHECKING:
    from ..app import DragomanApp


async def choose_model(app: "DragomanApp") -> None:
    """Let the user choose the model."""
    options = app.pane.model.transcript.config_options
    known = [each for each in options if isinstance(each, s.SessionConfigSelect)]
    if model := next((each for each in known if each.category == "model"), None):
        await _choose_value(app, model)
    else:
        app.notify("this agent offers no choice of models", markup=False)


async def choose_option(app: "DragomanApp") -> None:
    """Let the user choose a mode, or an option and its new value."""
    model, driver = app.pane.model, app.pane.driver
    items = [*_modes(model), *_options(model)]
    if not items:
        app.notify("this agent has no options", markup=False)
        return
    if (chosen := await app.push_screen_wait(Picker("Options", items))) is None:
        return
    kind, _, id = chosen[1].partition(" ")
    options = {each.id: each for each in model.transcript.config_options if not isinstance(each, s.Raw)}
    if kind == "mode":
        driver.carry_out(i.SetMode(mode=id))
    elif isinstance(option := options.get(id), s.SessionConfigBoolean):
        driver.carry_out(i.SetOption(id=id, value=not option.current_value))
    elif option is not None:
        await _choose_value(app, option)


def _modes(model: ConversationModel) -> Iterator[Item]:
    for mode in model.modes.available_modes if model.modes else ():
        yield Item(f"mode {mode.id}", mode.name, mode.description or "", mode.id == model.mode, "Mode")


def _options(model: ConversationModel) -> Iterator[Item]:
    for option in model.transcript.config_options:
        if not isinstance(option, s.Raw):
            value = "on" if option.current_value else "off"
            if isinstance(option, s.SessionConfigSelect):
                value = option_name(option)
            yield Item(f"option {option.id}", option.name, f"{value}  {option.description or ''}", group="Options")


async def _choose_value(app: "DragomanApp", option: s.SessionConfigSelect) -> None:
    items = []
    for entry in option.options:
        group = entry.name if isinstance(entry, s.SessionConfigSelectGroup) else ""
        for each in entry.options if isinstance(entry, s.SessionConfigSelectGroup) else [entry]:
            is_current = each.value == option.current_value
            items.append(Item(each.value, each.name, each.description or "", is_current, group))
    if (chosen := await app.push_screen_wait(Picker(line(option.name, 60).plain, items))) is not None:
        app.pane.driver.carry_out(i.SetOption(id=option.id, value=chosen[1]))

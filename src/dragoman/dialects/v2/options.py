"""Modes and config options: two things in version 1, one in version 2."""

from ...foundation.documents import Json, document, documents, documents_in
from ..engine.flows import Message
from ..engine.shapes import margin
from ..engine.translator import Translator
from .handshake import offered
from .session_state import SessionState
from .shapes import MODE_OPTION, OPTIONS


def options_outward(talk: SessionState, t: Translator) -> list[Message]:
    """All options of a session as version 2 has them; modes that no option stands for become one."""
    said = documents(OPTIONS.outward(talk.options, t))
    modes = talk.modes
    if modes and not any(map(_is_mode, talk.options)):
        choices = [
            {("value" if name == "id" else name): member for name, member in mode.items()}
            for mode in documents(modes["availableModes"])
        ]
        option: Message = {"type": "select", "configId": MODE_OPTION, "name": "Mode", "category": "mode"}
        said = [{**option, "currentValue": modes["currentModeId"], "options": choices, **margin(modes)}, *said]
    return said


def learn_options(talk: SessionState, given: Json, t: Translator) -> None:
    """Take note of the options of version 2, and of the modes that one of them is."""
    options = documents(given) if isinstance(given, list) else []
    mode = next((option for option in options if _is_mode(option)), None)
    others = [option for option in options if option.get("configId") != MODE_OPTION]
    talk.options = documents(OPTIONS.inward(others, t))
    talk.mode_option = mode["configId"] if mode else None
    talk.modes = None
    if mode:
        choices = [
            {("id" if name == "value" else name): member for name, member in choice.items()}
            for entry in documents(mode["options"])
            for choice in (documents(entry["options"]) if "groupId" in entry else [entry])
        ]
        talk.modes = {"currentModeId": mode["currentValue"], "availableModes": choices}
        if talk.mode_option == MODE_OPTION:
            talk.modes |= margin(mode)


def shown_options(talk: SessionState, t: Translator) -> list[Message]:
    """The options a client of version 1 can show."""
    if offered(t.client_offers, "session", "configOptions", "boolean"):
        return talk.options
    shown = [option for option in talk.options if option.get("type") != "boolean"]
    if len(shown) < len(talk.options):
        t.lose("boolean option")
    return shown


def changes_inward(talk: SessionState, options: Json, meta: Message, t: Translator) -> list[Message]:
    """The updates of version 1 that tell of new options."""
    before, mode = talk.options, (talk.modes or {}).get("currentModeId")
    learn_options(talk, options, t)
    found: list[Message] = []
    now = (talk.modes or {}).get("currentModeId")
    if now is not None and now != mode:
        found.append({"sessionUpdate": "current_mode_update", "currentModeId": now, **meta})
    if talk.options != before or not found:
        found.append({"sessionUpdate": "config_option_update", "configOptions": shown_options(talk, t), **meta})
    return found


def opened_inward(talk: SessionState, result: Message, t: Translator) -> Message:
    """The answer to a call that opened a session, for a client of version 1."""
    learn_options(talk, result.get("configOptions"), t)
    said = {name: member for name, member in result.items() if name not in ("configOptions", "availableCommands")}
    if talk.modes:
        said["modes"] = talk.modes
    if talk.options:
        said["configOptions"] = shown_options(talk, t)
    return said


def opened_outward(talk: SessionState, result: Message, t: Translator) -> Message:
    """The answer to a call that opened a session, for a client of version 2."""
    modes = result.get("modes")
    talk.modes = None if modes is None else document(modes)
    talk.options = documents_in(result.get("configOptions"))
    said = {name: member for name, member in result.items() if name not in ("modes", "configOptions")}
    options = options_outward(talk, t)
    return {**said, "configOptions": options} if options else said


def _is_mode(option: Message) -> bool:
    is_choice = option.get("type") == "select"
    return is_choice and (option.get("configId") == MODE_OPTION or option.get("category") == "mode")

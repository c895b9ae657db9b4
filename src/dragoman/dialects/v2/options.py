"""Modes and config options: two things in version 1, one in version 2."""

from ...foundation.documents import Json, document, documents, documents_in
from ..engine.flows import Message
from ..engine.shapes import meta_of
from ..engine.translator import Translator
from .handshake import offered
from .session_state import SessionState
from .shapes import MODE_OPTION, OPTIONS


def options_outward(session: SessionState, t: Translator) -> list[Message]:
    """All options of a session in version 2; the modes become an option unless one represents them already."""
    said = documents(OPTIONS.outward(session.options, t))
    modes = session.modes
    if modes and not any(map(_is_mode, session.options)):
        choices = [
            {("value" if name == "id" else name): member for name, member in mode.items()}
            for mode in documents(modes["availableModes"])
        ]
        option: Message = {"type": "select", "configId": MODE_OPTION, "name": "Mode", "category": "mode"}
        said = [{**option, "currentValue": modes["currentModeId"], "options": choices, **meta_of(modes)}, *said]
    return said


def learn_options(session: SessionState, given: Json, t: Translator) -> None:
    """Note the options of version 2, and the modes that one of them represents."""
    options = documents(given) if isinstance(given, list) else []
    mode = next((option for option in options if _is_mode(option)), None)
    others = [option for option in options if option.get("configId") != MODE_OPTION]
    session.options = documents(OPTIONS.inward(others, t))
    session.mode_option = mode["configId"] if mode else None
    session.modes = None
    if mode:
        choices = [
            {("id" if name == "value" else name): member for name, member in choice.items()}
            for entry in documents(mode["options"])
            for choice in (documents(entry["options"]) if "groupId" in entry else [entry])
        ]
        session.modes = {"currentModeId": mode["currentValue"], "availableModes": choices}
        if session.mode_option == MODE_OPTION:
            session.modes |= meta_of(mode)


def shown_options(session: SessionState, t: Translator) -> list[Message]:
    """The options that a client of version 1 can show."""
    if offered(t.client_offers, "session", "configOptions", "boolean"):
        return session.options
    shown = [option for option in session.options if option.get("type") != "boolean"]
    if len(shown) < len(session.options):
        t.lose("boolean option")
    return shown


def changes_inward(session: SessionState, options: Json, meta: Message, t: Translator) -> list[Message]:
    """The updates of version 1 that report new options."""
    before, mode = session.options, (session.modes or {}).get("currentModeId")
    learn_options(session, options, t)
    found: list[Message] = []
    now = (session.modes or {}).get("currentModeId")
    if now is not None and now != mode:
        found.append({"sessionUpdate": "current_mode_update", "currentModeId": now, **meta})
    if session.options != before or not found:
        found.append({"sessionUpdate": "config_option_update", "configOptions": shown_options(session, t), **meta})
    return found


def opened_inward(session: SessionState, result: Message, t: Translator) -> Message:
    """The answer to a call that opens a session, for a client of version 1."""
    learn_options(session, result.get("configOptions"), t)
    said = {name: member for name, member in result.items() if name not in ("configOptions", "availableCommands")}
    if session.modes:
        said["modes"] = session.modes
    if session.options:
        said["configOptions"] = shown_options(session, t)
    return said


def opened_outward(session: SessionState, result: Message, t: Translator) -> Message:
    """The answer to a call that opens a session, for a client of version 2."""
    modes = result.get("modes")
    session.modes = None if modes is None else document(modes)
    session.options = documents_in(result.get("configOptions"))
    said = {name: member for name, member in result.items() if name not in ("modes", "configOptions")}
    options = options_outward(session, t)
    return {**said, "configOptions": options} if options else said


def _is_mode(option: Message) -> bool:
    is_choice = option.get("type") == "select"
    return is_choice and (option.get("configId") == MODE_OPTION or option.get("category") == "mode")

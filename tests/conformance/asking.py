"""What an agent asks of its client: permission, forms, pages, files, terminals."""

from typing import Any

from .kit import SERVICES, TEXT, Kit, NotShown, requirement
from .services import refused

PERMISSION, ELICITATION, FILES, TERMINALS = "Tool calls: permission", "Elicitation", "File system", "Terminals"
FIELDS = {"string", "number", "integer", "boolean", "array"}


@requirement(SERVICES, PERMISSION, client="rich")
async def questions_fit_the_schema(kit: Kit) -> None:
    """A question for permission is what the schema says."""
    for params in (await kit.shown()).asked("session/request_permission"):
        kit.read(params, "RequestPermissionRequest")


@requirement(SERVICES, PERMISSION, client="rich")
async def questions_have_options(kit: Kit) -> None:
    """A question has options, each with an id of its own, a name and a kind there is."""
    kinds = {"allow_once", "allow_always", "reject_once", "reject_always"}
    for params in (await kit.shown()).asked("session/request_permission"):
        ids = [option["optionId"] for option in params["options"]]
        assert ids and len(ids) == len(set(ids))
        assert all(o["name"].strip() and o["kind"] in kinds for o in params["options"])


@requirement(SERVICES, PERMISSION, client="rich")
async def questions_are_of_the_session(kit: Kit) -> None:
    """A question is asked of the session whose turn it is."""
    shown = await kit.shown()
    assert {q["sessionId"] for q in shown.asked("session/request_permission")} == {shown.session}


@requirement(SERVICES, PERMISSION, client="rich")
async def questions_are_about_a_tool_that_was_told(kit: Kit) -> None:
    """The tool call that a question is about was told before."""
    shown = await kit.shown()
    questions = [m for m in shown.messages if m.get("method") == "session/request_permission"]
    for question in questions:
        params = question["params"]
        subject = params.get("toolCall") or (params.get("subject") or {}).get("toolCall")
        if subject is None:
            raise NotShown
        before = shown.messages[: shown.messages.index(question)]
        told = [(m.get("params") or {}).get("update", {}).get("toolCallId") for m in before]
        assert subject["toolCallId"] in told
    if not questions:
        raise NotShown


@requirement(SERVICES, ELICITATION, client="rich")
async def forms_fit_the_schema(kit: Kit) -> None:
    """A form and a page are what the schema says, with their mode."""
    for params in (await kit.shown()).asked("elicitation/create"):
        assert params["mode"] in ("form", "url")
        kit.read(params, "CreateElicitationRequest")


@requirement(SERVICES, ELICITATION, client="rich")
async def forms_say_what_is_wanted(kit: Kit) -> None:
    """A form has a sentence for the user, and fields that are no objects; what it requires is among them."""
    for params in _elicited(await kit.shown(), "form"):
        form = params["requestedSchema"]
        assert params["message"].strip()
        assert form["type"] == "object" and form["properties"]
        assert {field["type"] for field in form["properties"].values()} <= FIELDS
        assert set(form.get("required") or []) <= set(form["properties"])


@requirement(SERVICES, ELICITATION, client="rich")
async def forms_have_one_scope(kit: Kit) -> None:
    """A form or page belongs to a session or to a request, and not to both."""
    for params in (await kit.shown()).asked("elicitation/create"):
        assert ("sessionId" in params) != ("requestId" in params)


@requirement(SERVICES, ELICITATION, client="rich")
async def pages_have_an_address_and_an_id(kit: Kit) -> None:
    """A page has an address of the web, a sentence for the user, and an id."""
    for params in _elicited(await kit.shown(), "url"):
        assert params["url"].startswith(("https://", "http://"))
        assert params["message"].strip() and params["elicitationId"]


@requirement(SERVICES, ELICITATION, client="rich")
async def visits_that_are_over_were_asked_for(kit: Kit) -> None:
    """A page that is said to be done is one that the user was sent to, and after that."""
    shown = await kit.shown()
    sent: set[str] = set()
    shown.asked("elicitation/complete")
    for message in shown.messages:
        if message.get("method") == "elicitation/create":
            sent.add(message["params"].get("elicitationId"))
        elif message.get("method") == "elicitation/complete":
            assert message["params"]["elicitationId"] in sent


@requirement(SERVICES, ELICITATION, client="rich")
async def a_declined_form_ends_no_turn(kit: Kit) -> None:
    """A form that is declined, dismissed or fails leaves the turn its stop reason."""
    (await kit.shown()).asked("elicitation/create")
    answers: list[Any] = [{"result": {"action": action}} for action in ("decline", "cancel")]
    for answer in (*answers, refused({})):
        kit.services.replies["elicitation/create"] = lambda message, answer=answer: answer  # type: ignore[misc]
        assert await kit.turn(await kit.session(), [TEXT]) == "end_turn"


@requirement(SERVICES, "Initialization")
async def nothing_is_asked_that_is_not_offered(kit: Kit) -> None:
    """A client that offers nothing is asked for permission at most."""
    await kit.shown()
    asked = {name for name in kit.asked() if not name.startswith(("_", "$/"))}
    assert asked <= {"session/update", "session/request_permission", "auth/status_update"}


@requirement(SERVICES, "Initialization", client="rich")
async def only_methods_there_are_are_asked(kit: Kit) -> None:
    """A client that offers everything is asked for what its version has."""
    await kit.shown()
    common = {"session/update", "session/request_permission", "auth/status_update", "elicitation/create"}
    common |= {"elicitation/complete", "mcp/message"}
    files = {"fs/read_text_file", "fs/write_text_file"}
    terminals = {f"terminal/{verb}" for verb in ("create", "output", "wait_for_exit", "kill", "release")}
    wanted = common | files | terminals if kit.version == 1 else common
    assert {name for name in kit.asked() if not name.startswith(("_", "$/"))} <= wanted


@requirement(SERVICES, FILES, 1, client="rich")
async def files_have_absolute_paths(kit: Kit) -> None:
    """A file that the client shall read or write has an absolute path, and its lines are counted from 1."""
    shown = await kit.shown()
    for params in [*shown.asked("fs/read_text_file"), *shown.asked("fs/write_text_file")]:
        assert params["path"].startswith("/")
        assert params["sessionId"] == shown.session
        if (line := params.get("line")) is not None:
            assert line >= 1


@requirement(SERVICES, FILES, 1, client="rich")
async def files_that_fail_end_no_turn(kit: Kit) -> None:
    """A client that cannot read or write leaves the turn its stop reason."""
    (await kit.shown()).asked("fs/read_text_file")
    for method in ("fs/read_text_file", "fs/write_text_file"):
        kit.services.replies[method] = refused
    assert await kit.turn(await kit.session(), [TEXT]) == "end_turn"


@requirement(SERVICES, TERMINALS, 1, client="rich")
async def terminals_are_asked_for_whole(kit: Kit) -> None:
    """A terminal is asked for with a command, in an absolute directory if one is named, with names of variables."""
    for params in (await kit.shown()).asked("terminal/create"):
        kit.read(params, "CreateTerminalRequest")
        assert params["command"].strip()
        assert (params.get("cwd") or "/").startswith("/")
        assert all(variable["name"] for variable in params.get("env") or [])


@requirement(SERVICES, TERMINALS, 1, client="rich")
async def terminals_are_released(kit: Kit) -> None:
    """Every terminal is released once, and nothing is asked of it after that."""
    shown = await kit.shown()
    shown.asked("terminal/create")
    released: list[str] = []
    for message in shown.messages:
        if (message.get("method") or "").startswith("terminal/") and message["method"] != "terminal/create":
            assert message["params"]["terminalId"] not in released
            if message["method"] == "terminal/release":
                released.append(message["params"]["terminalId"])
    assert len(released) == len(shown.asked("terminal/create"))


@requirement(SERVICES, TERMINALS, 1, client="rich")
async def terminals_are_those_the_client_gave(kit: Kit) -> None:
    """Whatever is asked of a terminal names one that the client has made."""
    shown = await kit.shown()
    for params in shown.asked("terminal/release"):
        assert params["terminalId"].startswith("kit-terminal-")
        assert params["sessionId"] == shown.session


@requirement(SERVICES, TERMINALS, 1, client="rich")
async def terminals_that_fail_end_no_turn(kit: Kit) -> None:
    """A client that can make no terminal leaves the turn its stop reason."""
    (await kit.shown()).asked("terminal/create")
    kit.services.replies["terminal/create"] = refused
    assert await kit.turn(await kit.session(), [TEXT]) == "end_turn"


def _elicited(shown: Any, mode: str) -> list[Any]:
    found = [params for params in shown.asked("elicitation/create") if params["mode"] == mode]
    if not found:
        raise NotShown
    return found

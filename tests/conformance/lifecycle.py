"""Greeting, logging in and opening sessions, as both versions require it."""

from typing import Any

from .kit import LIFECYCLE, TEXT, Kit, NotShown, requirement

INITIALIZATION, SETUP, AUTHENTICATION = "Initialization", "Session setup", "Authentication"


@requirement(LIFECYCLE, INITIALIZATION, client="any")
async def the_version_is_an_integer(kit: Kit) -> None:
    """The answer to a greeting has the version that was asked for, as an integer."""
    assert kit.welcome["protocolVersion"] == kit.version
    assert type(kit.welcome["protocolVersion"]) is int


@requirement(LIFECYCLE, INITIALIZATION, client="any")
async def the_welcome_fits_the_schema(kit: Kit) -> None:
    """The answer to a greeting is what the schema says."""
    kit.read(kit.welcome, "InitializeResponse")


@requirement(LIFECYCLE, INITIALIZATION)
async def the_agent_has_a_name(kit: Kit) -> None:
    """The answer to a greeting names the agent and its version."""
    info = kit.welcome["agentInfo" if kit.version == 1 else "info"]
    assert info["name"].strip() and info["version"].strip()


@requirement(LIFECYCLE, INITIALIZATION)
async def a_later_version_is_answered_with_one_there_is(kit: Kit) -> None:
    """A version from the future is answered with one that the agent speaks."""
    other = await kit.stranger()
    welcome = await other.good("initialize", {**kit.greeting(), "protocolVersion": 99})
    assert welcome["protocolVersion"] in (1, 2)
    await other.wire.hang_up()


@requirement(LIFECYCLE, INITIALIZATION)
async def a_version_that_is_none_is_refused(kit: Kit) -> None:
    """A greeting whose version is no number of 16 bits, or that has none, is -32602, and another may follow."""
    other = await kit.stranger()
    for version in ("one", -1, 65536, 1.5, None):
        await other.bad("initialize", {**kit.greeting(), "protocolVersion": version}, code=-32602)
    await other.greet()
    await other.wire.hang_up()


@requirement(LIFECYCLE, INITIALIZATION)
async def nothing_is_done_before_the_greeting(kit: Kit) -> None:
    """A request before the greeting is refused, and the greeting may still come."""
    other = await kit.stranger()
    await other.bad("session/new", {"cwd": kit.cwd, "mcpServers": []})
    await other.greet()
    await other.session()
    await other.wire.hang_up()


@requirement(LIFECYCLE, INITIALIZATION)
async def notes_before_the_greeting_are_ignored(kit: Kit) -> None:
    """A notification or an answer before the greeting is ignored."""
    other = await kit.stranger()
    other.wire.tell("session/cancel", {"sessionId": "none"})
    other.wire.send({"id": 900, "result": {}})
    await other.greet()
    assert len(other.heard) == 1
    await other.wire.hang_up()


@requirement(LIFECYCLE, INITIALIZATION)
async def unknown_capabilities_of_a_client_are_ignored(kit: Kit) -> None:
    """A client may offer what the agent has never heard of."""
    other = await kit.stranger()
    name = "clientCapabilities" if kit.version == 1 else "capabilities"
    await other.good("initialize", {**kit.greeting(), name: {"somethingNew": {"a": [1]}}})
    await other.wire.hang_up()


@requirement(LIFECYCLE, AUTHENTICATION, client="any")
async def logins_are_told_apart(kit: Kit) -> None:
    """Ways to log in have ids of their own, and names."""
    methods = kit.welcome.get("authMethods") or []
    ids = [method.get("methodId", method.get("id")) for method in methods]
    assert len(ids) == len(set(ids))
    assert all(method["name"].strip() for method in methods)


@requirement(LIFECYCLE, AUTHENTICATION)
async def logins_need_no_terminal_that_is_not_there(kit: Kit) -> None:
    """No way to log in needs a terminal that the client does not have."""
    assert "terminal" not in [method.get("type") for method in kit.welcome.get("authMethods") or []]


@requirement(LIFECYCLE, AUTHENTICATION)
async def unknown_logins_are_refused(kit: Kit) -> None:
    """A way to log in that was not offered is refused."""
    await kit.bad(kit.login, {"methodId": "nobody's"})


@requirement(LIFECYCLE, AUTHENTICATION)
async def offered_logins_are_answered(kit: Kit) -> None:
    """A way to log in that was offered has an answer, and sessions can be opened after a good one."""
    methods = [m for m in kit.welcome.get("authMethods") or [] if m.get("type", "agent") == "agent"]
    if not methods:
        raise NotShown
    answer = await kit.call(kit.login, {"methodId": methods[0].get("methodId", methods[0].get("id"))})
    if answer.get("result") is not None:
        assert answer["result"] == {}
        await kit.session()


@requirement(LIFECYCLE, SETUP, client="any")
async def an_opened_session_fits_the_schema(kit: Kit) -> None:
    """The answer to `session/new` is what the schema says."""
    kit.read((await kit.shown()).opened, "NewSessionResponse")


@requirement(LIFECYCLE, SETUP)
async def sessions_are_distinct(kit: Kit) -> None:
    """Two sessions of one connection have different ids."""
    assert await kit.session() != await kit.session()


@requirement(LIFECYCLE, SETUP)
async def directories_are_absolute(kit: Kit) -> None:
    """A relative directory is refused."""
    for cwd in ("somewhere", "./here", ""):
        await kit.bad("session/new", {"cwd": cwd, "mcpServers": []})


@requirement(LIFECYCLE, SETUP)
async def unknown_sessions_are_refused(kit: Kit) -> None:
    """A prompt for a session nobody opened is an error, and so is a setting of one."""
    await kit.bad("session/prompt", {"sessionId": "nobody's", "prompt": [TEXT]})
    value = {"type": "id"} if kit.version == 2 else {}
    await kit.bad("session/set_config_option", {"sessionId": "nobody's", "configId": "x", "value": "y", **value})


@requirement(LIFECYCLE, SETUP)
async def malformed_servers_are_refused(kit: Kit) -> None:
    """MCP servers that make no sense refuse the session, and are not passed over."""
    broken: tuple[Any, ...] = ("x", [7], [{"name": "x"}], [{"type": "http", "name": "x"}])
    for servers in broken:
        await kit.bad("session/new", {"cwd": kit.cwd, "mcpServers": servers}, code=-32602)


@requirement(LIFECYCLE, SETUP)
async def no_servers_may_be_null(kit: Kit) -> None:
    """Null in place of the MCP servers is none."""
    await kit.session(mcpServers=None)


@requirement(LIFECYCLE, SETUP)
async def a_server_over_stdio_is_taken(kit: Kit) -> None:
    """An MCP server that is a program is taken, and answered with a session or with a reason that names it."""
    form = {"type": "stdio"} if kit.version == 2 else {}
    server = {**form, "name": "absent", "command": "/nonexistent/server", "args": [], "env": []}
    answer = await kit.call("session/new", {"cwd": kit.cwd, "mcpServers": [server]})
    if "error" in answer:
        assert "absent" in answer["error"]["message"], answer
    else:
        assert answer["result"]["sessionId"], answer


@requirement(LIFECYCLE, SETUP)
async def sessions_do_not_mix(kit: Kit) -> None:
    """Two sessions can be spoken to one after the other and in turn, each under its own id."""
    one, two = await kit.session(), await kit.session()
    start = len(kit.heard)
    await kit.turn(one, [kit.quick])
    assert kit.updates(one, start)
    middle = len(kit.heard)
    await kit.turn(two, [kit.quick])
    assert kit.updates(two, middle)
    kinds = {update["sessionUpdate"] for update in kit.updates(one, middle)}
    assert kinds <= {"session_info_update", "usage_update", "available_commands_update"}

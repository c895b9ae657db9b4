"""What an agent need not have, and has to do well where it offers it."""

from typing import Any

from .kit import OPTIONAL, TEXT, Kit, NotShown, requirement

LIST, SETUP, AUTH = "Session list", "Session setup", "Authentication"


@requirement(OPTIONAL, LIST)
async def sessions_are_listed(kit: Kit) -> None:
    """A list has sessions with ids and absolute directories, as the schema says."""
    kit.offered("list")
    found = await kit.good("session/list", {})
    kit.read(found, "ListSessionsResponse")
    assert all(session["sessionId"] and session["cwd"].startswith("/") for session in found["sessions"])


@requirement(OPTIONAL, LIST)
async def lists_are_of_a_directory(kit: Kit) -> None:
    """A list of one directory has no session of another, and is empty where there is none."""
    kit.offered("list")
    assert (await kit.good("session/list", {"cwd": "/nowhere/at/all"}))["sessions"] == []
    here = (await kit.good("session/list", {"cwd": kit.cwd}))["sessions"]
    assert {session["cwd"] for session in here} <= {kit.cwd}


@requirement(OPTIONAL, LIST)
async def lists_go_on_where_they_stopped(kit: Kit) -> None:
    """The pages of a list come to an end and have every session once."""
    kit.offered("list")
    for _ in range(7):
        await kit.turn(await kit.session(), [kit.quick])
    ids: list[str] = []
    cursor: dict[str, Any] = {}
    for _ in range(1000):
        page = await kit.good("session/list", cursor)
        ids += [session["sessionId"] for session in page["sessions"]]
        if page.get("nextCursor") is None:
            break
        cursor = {"cursor": page["nextCursor"]}
    else:
        raise AssertionError("the list has no end")
    assert len(ids) == len(set(ids))


@requirement(OPTIONAL, LIST)
async def foreign_cursors_are_refused(kit: Kit) -> None:
    """A cursor that the agent has not given is refused."""
    kit.offered("list")
    await kit.bad("session/list", {"cursor": "nobody's cursor"})


@requirement(OPTIONAL, SETUP)
async def sessions_are_closed(kit: Kit) -> None:
    """A session can be closed, and then takes no prompts."""
    kit.offered("close")
    id = await kit.session()
    assert await kit.good("session/close", {"sessionId": id}) == {}
    await kit.bad("session/prompt", {"sessionId": id, "prompt": [TEXT]})


@requirement(OPTIONAL, SETUP)
async def sessions_are_deleted(kit: Kit) -> None:
    """A deleted session is not listed, and to delete it again does no harm, nor one there never was."""
    kit.offered("delete")
    id = await kit.session()
    for gone in (id, id, "nobody's"):
        assert await kit.good("session/delete", {"sessionId": gone}) == {}
    assert id not in [session["sessionId"] for session in (await kit.good("session/list", {}))["sessions"]]


@requirement(OPTIONAL, SETUP)
async def further_directories_are_taken(kit: Kit) -> None:
    """Absolute directories besides the first are taken where they are offered to be, and others are refused."""
    kit.offered("additionalDirectories")
    await kit.session(additionalDirectories=[kit.cwd])
    await kit.bad("session/new", {"cwd": kit.cwd, "mcpServers": [], "additionalDirectories": ["here"]})
    await kit.bad("session/new", {"cwd": kit.cwd, "mcpServers": [], "additionalDirectories": 7}, code=-32602)


@requirement(OPTIONAL, SETUP)
async def a_fork_goes_on_by_itself(kit: Kit) -> None:
    """A fork is a session of its own, which takes prompts at once; its source goes on, too."""
    kit.offered("fork")
    id = await kit.session()
    await kit.turn(id, [kit.quick])
    made = await kit.good("session/fork", {"sessionId": id, "cwd": kit.cwd, "mcpServers": []})
    kit.read(made, "ForkSessionResponse")
    assert made["sessionId"] != id
    for each in (made["sessionId"], id):
        assert await kit.turn(each, [kit.quick]) == "end_turn"
    await kit.bad("session/fork", {"sessionId": "nobody's", "cwd": kit.cwd, "mcpServers": []})


@requirement(OPTIONAL, LIST)
async def archived_sessions_are_kept_apart(kit: Kit) -> None:
    """An archived session is listed only where archived ones are asked for, until it is taken out again."""
    kit.offered("archive")
    id = await kit.session()
    await kit.turn(id, [kit.quick])
    for _ in range(2):
        assert await kit.good("session/archive", {"sessionId": id}) == {}
    assert id not in await _listed(kit, "exclude")
    assert id in await _listed(kit, "only") and id in await _listed(kit, "include")
    assert await kit.good("session/unarchive", {"sessionId": id}) == {}
    assert id in await _listed(kit, "exclude") and id not in await _listed(kit, "only")


@requirement(OPTIONAL, LIST)
async def unknown_filters_are_refused(kit: Kit) -> None:
    """A filter for archived sessions that there is not is -32602, and an unknown session cannot be archived."""
    kit.offered("archive")
    await kit.bad("session/list", {"archived": "sometimes"}, code=-32602)
    await kit.bad("session/archive", {"sessionId": "nobody's"}, code=-32002)


@requirement(OPTIONAL, LIST)
async def the_status_of_a_session_is_told(kit: Kit) -> None:
    """An open session is said to be open, however often, and an unknown one is an error."""
    kit.offered("status")
    id = await kit.session()
    for _ in range(2):
        assert (await kit.good("session/status", {"sessionId": id}))["status"] == "open"
    await kit.bad("session/status", {"sessionId": "nobody's"})


@requirement(OPTIONAL, LIST)
async def titles_are_kept(kit: Kit) -> None:
    """A title that is set is answered as it is kept, is listed, and cannot be empty."""
    kit.offered("title")
    id = await kit.session()
    kept = (await kit.good("session/set_title", {"sessionId": id, "title": "A title of mine"}))["title"]
    assert kept == "A title of mine"
    await kit.bad("session/set_title", {"sessionId": id, "title": ""}, code=-32602)


@requirement(OPTIONAL, SETUP)
async def system_prompts_are_taken_as_offered(kit: Kit) -> None:
    """A system prompt is taken where that is offered, and refused with the session where it is not."""
    offers = kit.session_offers().get("systemPrompt")
    for mode in ("append", "override"):
        params = {"cwd": kit.cwd, "mcpServers": [], "systemPrompt": {"mode": mode, "content": [TEXT]}}
        is_offered = offers is not None and (
            mode == "append" or (offers.get("mode") or {}).get("override") is not None
        )
        await (kit.good if is_offered else kit.bad)("session/new", params)


@requirement(OPTIONAL, AUTH)
async def logging_out_is_answered(kit: Kit) -> None:
    """Whoever can log in, or is offered to, can log out."""
    if kit.version == 1 and (kit.offers.get("auth") or {}).get("logout") is None:
        raise NotShown
    if kit.version == 2 and not kit.welcome.get("authMethods"):
        raise NotShown
    assert await kit.good("logout" if kit.version == 1 else "auth/logout") == {}


@requirement(OPTIONAL, AUTH)
async def the_state_of_the_login_is_told(kit: Kit) -> None:
    """Whether somebody is logged in is answered, and never with a demand to log in."""
    if (kit.offers.get("auth") or {}).get("status") is None:
        raise NotShown
    kit.read(status := await kit.good("auth/status"), "AuthStatusResponse")
    assert status["state"]


@requirement(OPTIONAL, "Providers")
async def providers_are_listed_without_secrets(kit: Kit) -> None:
    """Providers can be set and listed, and headers are never told."""
    setting = _provider(kit)
    assert await kit.good("providers/set", {**setting, "headers": {"Authorization": "secret"}}) == {}
    found = await kit.good("providers/list")
    assert "secret" not in str(found)
    assert {"apiType": "openai", "baseUrl": "https://x.example"} in [p.get("current") for p in found["providers"]]


@requirement(OPTIONAL, "Providers")
async def unknown_providers_are_refused(kit: Kit) -> None:
    """A provider that there is not cannot be set, nor one with a protocol that it does not speak."""
    setting = _provider(kit)
    await kit.bad("providers/set", {**setting, "providerId": "none"}, code=-32602)
    await kit.bad("providers/set", {**setting, "apiType": "_nobody"}, code=-32602)


@requirement(OPTIONAL, "Providers")
async def providers_are_disabled_unless_required(kit: Kit) -> None:
    """A provider can be disabled, and is then listed without settings; one that is required cannot."""
    setting = _provider(kit)
    await kit.good("providers/set", setting)
    for provider in (await kit.good("providers/list"))["providers"]:
        if provider["required"]:
            await kit.bad("providers/disable", {"providerId": provider["providerId"]}, code=-32602)
    for id in (setting["providerId"], "none"):
        assert await kit.good("providers/disable", {"providerId": id}) == {}
    listed = {p["providerId"]: p for p in (await kit.good("providers/list"))["providers"]}
    assert listed[setting["providerId"]].get("current") is None


def _provider(kit: Kit) -> dict[str, Any]:
    if kit.offers.get("providers") is None:
        raise NotShown
    return {"providerId": "spare", "apiType": "openai", "baseUrl": "https://x.example"}


async def _listed(kit: Kit, archived: str) -> list[str]:
    ids: list[str] = []
    cursor: dict[str, Any] = {}
    while True:
        page = await kit.good("session/list", {"archived": archived, **cursor})
        ids += [session["sessionId"] for session in page["sessions"]]
        if page.get("nextCursor") is None:
            return ids
        cursor = {"cursor": page["nextCursor"]}

"""What both versions require in the same words."""

from .kit import CONTENT, LINK, TEXT, Kit, NotShown, requirement


@requirement(1, 2)
async def ids_are_echoed(kit: Kit) -> None:
    """An answer has the id of its request, as it was written."""
    for id in ("a-1", 2**40, ""):
        assert (await kit.call("session/list", {}, id=id))["id"] == id


@requirement(1, 2)
async def unknown_methods_are_refused(kit: Kit) -> None:
    """An unknown method is -32601; one with an underscore has some answer; the connection stays usable."""
    assert (await kit.bad("nonsense/method"))["code"] == -32601
    await kit.call("_conformance/unknown")
    await kit.session()


@requirement(1, 2)
async def notifications_have_no_answer(kit: Kit) -> None:
    """Nothing is answered to a notification, known or not."""
    for method in ("session/cancel", "_conformance/note", "$/nonsense"):
        kit.wire.tell(method, {"sessionId": "none"})
    assert [message for message in await kit.silence() if "method" not in message] == []


@requirement(1, 2)
async def sessions_are_distinct(kit: Kit) -> None:
    """Two sessions of one connection have different ids."""
    assert await kit.session() != await kit.session()


@requirement(1, 2)
async def directories_are_absolute(kit: Kit) -> None:
    """A relative directory is refused."""
    await kit.bad("session/new", {"cwd": "somewhere", "mcpServers": []})


@requirement(1, 2)
async def unknown_sessions_are_refused(kit: Kit) -> None:
    """A prompt for a session nobody opened is an error."""
    await kit.bad("session/prompt", {"sessionId": "nobody's", "prompt": [TEXT]})


@requirement(1, 2)
async def sessions_are_listed(kit: Kit) -> None:
    """A list has sessions with absolute directories, and none where there can be none."""
    _offered(kit, "list")
    found = (await kit.good("session/list", {}))["sessions"]
    assert all(session["cwd"].startswith("/") for session in found)
    assert (await kit.good("session/list", {"cwd": "/nowhere/at/all"}))["sessions"] == []
    here = (await kit.good("session/list", {"cwd": kit.cwd}))["sessions"]
    assert {session["cwd"] for session in here} <= {kit.cwd}


@requirement(1, 2)
async def sessions_are_closed(kit: Kit) -> None:
    """A session can be closed, and then takes no prompts."""
    _offered(kit, "close")
    id = await kit.session()
    assert await kit.good("session/close", {"sessionId": id}) == {}


@requirement(1, 2)
async def sessions_are_deleted(kit: Kit) -> None:
    """A deleted session is not listed, and to delete it again does no harm."""
    _offered(kit, "delete")
    id = await kit.session()
    for _ in range(2):
        assert await kit.good("session/delete", {"sessionId": id}) == {}
    assert id not in [session["sessionId"] for session in (await kit.good("session/list", {}))["sessions"]]


@requirement(1, 2)
async def further_directories_are_taken(kit: Kit) -> None:
    """Absolute directories besides the first are taken where they are offered to be."""
    _offered(kit, "additionalDirectories")
    await kit.session(additionalDirectories=[kit.cwd])


@requirement(1, 2)
async def content_is_taken_as_offered(kit: Kit) -> None:
    """Text and links are always taken in a prompt, and each further kind that is offered."""
    id = await kit.session()
    for kind in (None, *CONTENT):
        if kind is None or _takes(kit, kind):
            assert await kit.turn(id, [TEXT, CONTENT[kind] if kind else LINK]) == "end_turn"  # type: ignore[attr-defined]


@requirement(1, 2)
async def meta_is_taken(kit: Kit) -> None:
    """A prompt with `_meta` is like any other."""
    assert await kit.turn(await kit.session(), [TEXT], _meta={"x.example/y": [1]}) == "end_turn"  # type: ignore[attr-defined]


@requirement(1, 2)
async def logins_are_told_apart(kit: Kit) -> None:
    """Ways to log in have ids of their own, and none needs a terminal that the client does not have."""
    methods = kit.welcome.get("authMethods") or []
    ids = [method.get("methodId", method.get("id")) for method in methods]
    assert len(ids) == len(set(ids))
    assert "terminal" not in [method.get("type") for method in methods]


@requirement(1, 2)
async def providers_are_listed_without_secrets(kit: Kit) -> None:
    """Providers can be set and disabled, except for one that is required, and headers are never told."""
    offers = kit.welcome.get("agentCapabilities") or kit.welcome.get("capabilities") or {}
    if offers.get("providers") is None:
        raise NotShown
    setting = {"providerId": "spare", "apiType": "openai", "baseUrl": "https://x.example"}
    assert await kit.good("providers/set", {**setting, "headers": {"Authorization": "secret"}}) == {}
    found = await kit.good("providers/list")
    assert "secret" not in str(found)
    assert {"apiType": "openai", "baseUrl": "https://x.example"} in [p.get("current") for p in found["providers"]]
    assert (await kit.bad("providers/disable", {"providerId": "main"}))["code"] == -32602
    assert (await kit.bad("providers/set", {**setting, "providerId": "none"}))["code"] == -32602
    for id in ("spare", "none"):
        assert await kit.good("providers/disable", {"providerId": id}) == {}


def _offered(kit: Kit, name: str) -> None:
    if kit.version == 1:
        offers = (kit.welcome.get("agentCapabilities") or {}).get("sessionCapabilities") or {}
    else:
        offers = {"list": {}, "close": {}, **(kit.welcome.get("capabilities") or {}).get("session", {})}
    if offers.get(name) is None:
        raise NotShown


def _takes(kit: Kit, kind: str) -> bool:
    if kit.version == 1:
        return bool((kit.welcome["agentCapabilities"].get("promptCapabilities") or {}).get(kind))
    return (kit.welcome["capabilities"]["session"].get("prompt") or {}).get(kind) is not None

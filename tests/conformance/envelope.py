"""Messages: what both versions require of requests, answers and notifications, whatever they are about."""

from .kit import LIFECYCLE, Kit, requirement

OVERVIEW, ERRORS, EXTENSIONS = "Overview: JSON-RPC", "Overview: errors", "Extensibility"


@requirement(LIFECYCLE, OVERVIEW)
async def ids_are_echoed(kit: Kit) -> None:
    """An answer has the id of its request, as it was written."""
    for id in ("a-1", 2**40, "", 0):
        assert (await kit.call("session/list", {}, id=id))["id"] == id


@requirement(LIFECYCLE, OVERVIEW)
async def ids_keep_their_type(kit: Kit) -> None:
    """A number and a text that look the same are two ids, both of which may be open."""
    for id in (77, "77"):
        kit.wire.send({"id": id, "method": "session/list", "params": {}})
    answers = []
    while len(answers) < 2:
        if "method" not in (message := await kit.next()):
            answers.append(message["id"])
    assert sorted(map(repr, answers)) == ["'77'", "77"]


@requirement(LIFECYCLE, ERRORS)
async def unknown_methods_are_refused(kit: Kit) -> None:
    """An unknown method is -32601."""
    await kit.bad("nonsense/method", code=-32601)


@requirement(LIFECYCLE, EXTENSIONS)
async def extensions_are_answered(kit: Kit) -> None:
    """A request of an extension that the agent does not know is answered -32601, too."""
    await kit.bad("_conformance/unknown", code=-32601)


@requirement(LIFECYCLE, ERRORS)
async def a_refusal_ends_nothing(kit: Kit) -> None:
    """The connection stays usable after a refusal."""
    await kit.bad("nonsense/method")
    await kit.session()


@requirement(LIFECYCLE, OVERVIEW)
async def notifications_have_no_answer(kit: Kit) -> None:
    """Nothing is answered to a notification, known or not."""
    for method in ("session/cancel", "_conformance/note", "$/nonsense"):
        kit.wire.tell(method, {"sessionId": "none"})
    assert [message for message in await kit.silence() if "method" not in message] == []


@requirement(LIFECYCLE, OVERVIEW)
async def broken_notifications_have_no_answer(kit: Kit) -> None:
    """Nothing is answered to a notification whose params make no sense."""
    kit.wire.tell("session/cancel", {"sessionId": 7})
    assert [message for message in await kit.silence() if "method" not in message] == []


@requirement(LIFECYCLE, OVERVIEW)
async def answers_to_nothing_are_ignored(kit: Kit) -> None:
    """An answer to a question nobody asked is ignored."""
    kit.wire.send({"id": "never-asked", "result": {}}, {"id": 10**9, "error": {"code": 1, "message": "no"}})
    assert [message for message in await kit.silence() if "method" not in message] == []


@requirement(LIFECYCLE, ERRORS)
async def broken_json_is_told(kit: Kit) -> None:
    """What is no JSON is answered -32700 without an id, and the connection stays."""
    kit.wire.send(b'{"jsonrpc": "2.0", "id": 1, ')
    answer = await kit.until(None)
    assert answer["error"]["code"] == -32700
    await kit.session()


@requirement(LIFECYCLE, ERRORS)
async def what_is_no_message_is_told(kit: Kit) -> None:
    """JSON that is no message is answered -32600 without an id, and the connection stays."""
    for frame in (b"7", b'"hello"', b"null"):
        kit.wire.send(frame)
        answer = await kit.until(None)
        assert answer["error"]["code"] == -32600, frame
    await kit.session()


@requirement(LIFECYCLE, OVERVIEW)
async def params_may_be_left_out(kit: Kit) -> None:
    """A method whose fields are all optional is answered without params, and with null in their place."""
    for id, params in (("without", {}), ("null", {"params": None})):
        kit.wire.send({"id": id, "method": "session/list", **params})
        answer = await kit.until(id)
        if kit.session_offers().get("list") is None:
            assert answer["error"]["code"] == -32601, answer
        else:
            assert "sessions" in answer["result"], answer


@requirement(LIFECYCLE, ERRORS)
async def params_of_a_wrong_shape_are_refused(kit: Kit) -> None:
    """Params that lack a required field, or have one of a wrong type, are -32602."""
    await kit.bad("session/new", {"mcpServers": []}, code=-32602)
    await kit.bad("session/new", {"cwd": 7, "mcpServers": []}, code=-32602)
    await kit.bad("session/prompt", {"prompt": []}, code=-32602)
    await kit.bad("session/prompt", {"sessionId": await kit.session(), "prompt": "hello"}, code=-32602)


@requirement(LIFECYCLE, EXTENSIONS)
async def unknown_fields_are_ignored(kit: Kit) -> None:
    """A field nobody knows does not matter."""
    await kit.session(somethingNew={"a": 1})


@requirement(LIFECYCLE, EXTENSIONS)
async def meta_is_taken(kit: Kit) -> None:
    """A request with `_meta` is like any other, whatever is in it, and even where it is no object."""
    for meta in ({"x.example/y": [1], "traceparent": "00-0-0-01"}, None, 7):
        await kit.session(_meta=meta)


@requirement(LIFECYCLE, OVERVIEW, client="any")
async def everything_said_is_json_rpc(kit: Kit) -> None:
    """Every message says 2.0, an answer has a result or an error and never both, a request has params."""
    await kit.shown()
    for message in kit.heard:
        assert message["jsonrpc"] == "2.0"
        if "method" in message:
            assert isinstance(message["method"], str) and isinstance(message.get("params", {}), dict)
        else:
            assert ("result" in message) != ("error" in message), message


@requirement(LIFECYCLE, ERRORS, client="any")
async def every_error_has_a_code_and_a_sentence(kit: Kit) -> None:
    """An error's code is a 32-bit integer, and its message a sentence of one line."""
    await kit.bad("nonsense/method")
    for error in [message["error"] for message in kit.heard if "error" in message]:
        assert -(2**31) <= error["code"] < 2**31
        assert error["message"].strip() and "\n" not in error["message"]


@requirement(LIFECYCLE, OVERVIEW, client="rich")
async def ids_of_the_agent_are_not_used_twice(kit: Kit) -> None:
    """Whatever the agent asks has an id of its own, which is never null."""
    await kit.shown()
    ids = [repr(message["id"]) for message in kit.heard if "method" in message and "id" in message]
    assert len(ids) == len(set(ids)) and "None" not in ids


@requirement(LIFECYCLE, OVERVIEW, client="any")
async def names_are_written_in_camel_case(kit: Kit) -> None:
    """No key of a welcome, an opened session or an update has an underscore, except at its start."""
    shown = await kit.shown()
    waiting: list[object] = [kit.welcome, shown.opened, *shown.updates]
    while waiting:
        match waiting.pop():
            case dict() as found:
                for key, value in found.items():
                    if not key.startswith("_"):
                        assert "_" not in key, key
                    if key not in ("_meta", "rawInput", "rawOutput", "properties", "env"):
                        waiting.append(value)
            case list() as found:
                waiting += found

"""A client of the draft has of our agents what the draft says agents do, whatever they themselves have."""

import json

from dragoman.dialects import translator
from dragoman.dialects.draft.content import DIFF
from dragoman.testing import Echo, Testy

from .scripted import with_client
from .test_draft import GREETING

MODEST = {
    **GREETING,
    "capabilities": {**GREETING["capabilities"], "terminal": {"create": True, "maxConcurrent": 1}},
}


async def opened(client, **more):
    result = (await client.call("session/new", {"workingDirectory": "/", **more}))["result"]
    return result["sessionId"]


async def test_modes_and_options_are_listed_at_initialize():
    async with with_client(Testy, GREETING) as client:
        sessions = client.welcome["capabilities"]["sessionCapabilities"]
        assert sessions["modes"] == ["code", "plan"]
        assert sessions["configOptions"] == ["model", "voice", "verbose", "autoApprove"]
        assert client.welcome["capabilities"]["mcpCapabilities"]["transport"] == ["stdio", "http", "sse", "acp"]
    async with with_client(Echo, GREETING) as client:
        sessions = client.welcome["capabilities"]["sessionCapabilities"]
        assert (sessions["modes"], sessions["configOptions"]) == (["default"], ["autoApprove"])


async def test_the_mode_default_is_the_one_a_session_began_in():
    async with with_client(Testy, GREETING) as client:
        id = await opened(client, initialMode="plan")
        answer = await client.call("session/set_mode", {"sessionId": id, "mode": "default"})
        assert answer["result"] == {"previousMode": "plan", "currentMode": "default"}
        prompt = {"sessionId": id, "content": [{"type": "text", "text": "settings"}]}
        await client.call("session/prompt", prompt)
        said = "".join(u["data"]["content"] for u in client.updates if u["type"] == "agent_message_chunk")
        assert '"mode": "code"' in said
    async with with_client(Echo, GREETING) as client:
        answer = await client.call("session/set_mode", {"sessionId": await opened(client), "mode": "default"})
        assert answer["result"] == {"previousMode": "default", "currentMode": "default"}


async def test_a_client_that_approves_everything_is_not_asked():
    async with with_client(Testy, GREETING) as client:
        id = await opened(client)
        answer = await client.call(
            "session/set_config_option", {"sessionId": id, "key": "autoApprove", "value": True}
        )
        assert answer["result"] == {"key": "autoApprove", "previousValue": False, "currentValue": True}
        prompt = {"sessionId": id, "content": [{"type": "text", "text": "ask"}]}
        await client.call("session/prompt", prompt)
        assert client.asked == []
        assert "Allowed" in str(client.updates)
        wrong = {"sessionId": id, "key": "autoApprove", "value": "perhaps"}
        assert (await client.call("session/set_config_option", wrong))["error"]["code"] == -32602
        await client.call("session/set_config_option", {"sessionId": id, "key": "autoApprove", "value": False})
        client.answers["session/request_permission"] = {"granted": False}
        await client.call("session/prompt", prompt)
        assert [method for method, _ in client.asked] == ["session/request_permission"]


async def test_an_unknown_way_to_log_in_is_a_login_that_failed():
    async with with_client(Testy, GREETING) as client:
        answer = await client.call("authenticate", {"method": "oauth2", "credentials": {}})
        assert answer["result"]["success"] is False
        assert "oauth2" in answer["result"]["error"]


async def test_a_client_runs_no_more_terminals_than_it_says():
    async with with_client(Testy, MODEST) as client:
        made = iter(range(1, 9))
        client.answers["terminal/create"] = lambda message: {"terminalId": f"t{next(made)}"}
        client.answers["terminal/wait_for_exit"] = {"exitCode": 0}
        client.answers["terminal/release"] = {"released": True}
        id = await opened(client)
        prompt = {"sessionId": id, "content": [{"type": "text", "text": "run true\nrun true"}]}
        assert (await client.call("session/prompt", prompt))["result"]["stopReason"] == "end_turn"
        asked = json.dumps({"command": "sleep", "args": ["60"], "sessionId": id})
        prompt["content"][0]["text"] = f"request terminal/create {asked}"  # and it is not released
        assert (await client.call("session/prompt", prompt))["result"]["stopReason"] == "end_turn"
        result = (await client.call("session/prompt", prompt))["result"]
        assert result["stopReason"] == "error"
        assert "1 terminals at once" in str(result)


async def test_an_error_says_what_can_be_done_about_it():
    async with with_client(Testy, GREETING) as client:
        prompt = {"sessionId": "sess_invalid", "content": [{"type": "text", "text": "x"}]}
        error = (await client.call("session/prompt", prompt))["error"]
        assert error["code"] == -32000
        assert error["data"] == {"sessionId": "sess_invalid", "suggestion": "Create a new session with session/new"}


def test_a_hunk_may_leave_out_the_mark_of_what_stays():
    hunk = {"oldStart": 1, "oldLines": 3, "newStart": 1, "newLines": 3, "content": "def f():\n-    a\n+    b\nend"}
    output = {"type": "diff", "path": "/a.py", "hunks": [hunk]}
    diff = DIFF.inward(output, translator("draft", "agent"))
    assert (diff["oldText"], diff["newText"]) == ("def f():\n    a\nend\n", "def f():\n    b\nend\n")

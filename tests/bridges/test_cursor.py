"""Cursor's chat, played by an HTTP client that knows only what the guide says, talks with agents."""

import contextlib
import http.client
import json
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from patience import PATIENCE

from dragoman.gateway.access.tokens import add_token
from dragoman.gateway.log.database import FILE

from .cursor import Bridge, bridging, events

PATCH = Path(__file__).parents[2] / "src" / "dragoman" / "bridges" / "cursor" / "patch.js"


@pytest.fixture(scope="module")
def bridge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bridge]:
    """One bridge for the tests that leave it as it was; each has composers of its own."""
    directory = tmp_path_factory.mktemp("cursor")
    with bridging(directory) as running:
        add_token(directory / "state" / "tokens.json", "eve", "eve")
        yield running


def kinds(told: list[Any]) -> list[str]:
    return [event["type"] for event in told]


def test_a_message_is_answered_with_bubbles_and_the_generating_state(bridge: Bridge) -> None:
    told = list(bridge.send("c1", "echo Hello\necho there"))
    assert kinds(told) == ["generating", "bubble", "bubble", "text", "text", "generating", "done"]
    human, ai = told[1]["bubble"], told[2]["bubble"]
    assert (human["type"], human["text"], ai["type"]) == (1, "echo Hello\necho there", 2)
    assert {event["bubbleId"] for event in told if event["type"] == "text"} == {ai["bubbleId"]}
    assert [event["generating"] for event in told if event["type"] == "generating"] == [True, False]
    assert told[-1] == {"type": "done", "composerId": "c1", "stopReason": "end_turn"}


def test_a_conversation_can_be_read_again_with_the_same_bubbles(bridge: Bridge) -> None:
    first = list(bridge.send("c2", "echo one"))
    second = list(bridge.send("c2", "tool\nthought\necho two"))
    status, shown = bridge.ask("GET", "/acp/sessions/c2")
    assert (status, shown["modelName"], shown["generating"]) == (200, "acp:testy", False)
    ids = [event["bubble"]["bubbleId"] for event in first + second if event["type"] == "bubble"]
    assert [bubble["bubbleId"] for bubble in shown["bubbles"]] == ids
    assert [bubble["type"] for bubble in shown["bubbles"]] == [1, 2, 1, 2]
    assert shown["bubbles"][1]["text"] == "one"
    last = shown["bubbles"][3]
    assert last["text"].endswith("two")
    thought = "".join(event["text"] for event in second if event["type"] == "thinking")
    assert thought and last["thinking"] == thought
    updates = [event["update"] for event in second if event["type"] == "update"]
    called = {update["toolCallId"] for update in updates if update["sessionUpdate"] == "tool_call"}
    assert called and {call["toolCallId"] for call in last["toolCalls"]} == called


def test_every_agent_is_a_model_and_every_composer_a_session(bridge: Bridge) -> None:
    assert bridge.ask("GET", "/acp/agents") == (
        200,
        {"models": [{"name": "acp:testy", "title": "Testy, the scripted agent"}]},
    )
    bridge.said("listed", "echo x")
    status, told = bridge.ask("GET", "/acp/sessions")
    assert status == 200
    assert "listed" in [one["composerId"] for one in told["sessions"]]


@pytest.mark.parametrize(("kind", "happens"), [("allow_once", True), ("reject_once", False)])
def test_a_tool_is_permitted_or_refused_in_the_chat(bridge: Bridge, kind: str, happens: bool) -> None:
    file = Path(f"/proc/{bridge.process.pid}/cwd").resolve() / f"{kind}.txt"
    told = []
    for event in bridge.send(f"permission-{kind}", f"write {file} words"):
        told.append(event)
        if event["type"] == "permission":
            assert not file.exists()
            status, shown = bridge.ask("GET", f"/acp/sessions/permission-{kind}")
            assert (status, [one["requestId"] for one in shown["questions"]]) == (200, [event["requestId"]])
            chosen = next(option["optionId"] for option in event["options"] if option["kind"] == kind)
            answer = {"composerId": f"permission-{kind}", "requestId": event["requestId"], "optionId": chosen}
            assert bridge.ask("POST", "/acp/permission", {**answer, "optionId": "no such"})[0] == 400
            assert bridge.ask("POST", "/acp/permission", {**answer, "composerId": "c1"})[0] == 404
            assert bridge.ask("POST", "/acp/permission", answer) == (200, {"answered": True})
            answered = {"type": "permissionAnswered", **answer}
            assert bridge.ask("POST", "/acp/permission", answer)[0] == 404
    assert answered in told
    assert file.exists() == happens


def test_abort_ends_the_turn_and_its_question(bridge: Bridge) -> None:
    told = []
    for event in bridge.send("aborted", "ask allow_once reject_once"):
        told.append(event)
        if event["type"] == "permission":
            assert bridge.ask("POST", "/acp/abort", {"composerId": "aborted"}) == (200, {"aborted": True})
    assert told[-1]["stopReason"] == "cancelled"
    assert [event["optionId"] for event in told if event["type"] == "permissionAnswered"] == [None]
    assert bridge.ask("POST", "/acp/abort", {"composerId": "aborted"}) == (200, {"aborted": False})


def test_a_message_to_a_composer_that_generates_aborts_the_turn_first(bridge: Bridge) -> None:
    first = bridge.send("busy", "echo begun\nwait")
    begun = [next(first)]
    while begun[-1]["type"] != "text":
        begun.append(next(first))
    assert bridge.said("busy", "echo second") == "second"
    assert list(first)[-1]["stopReason"] == "cancelled"


def test_two_composers_talk_at_once(bridge: Bridge) -> None:
    waiting = bridge.send("left", "echo begun\nwait")
    while next(waiting)["type"] != "text":
        pass
    assert bridge.said("right", "echo meanwhile") == "meanwhile"
    assert bridge.ask("GET", "/acp/sessions/left")[1]["generating"]
    assert bridge.ask("POST", "/acp/abort", {"composerId": "left"}) == (200, {"aborted": True})
    assert list(waiting)[-1]["stopReason"] == "cancelled"


def test_a_reader_that_hangs_up_leaves_the_turn_running(bridge: Bridge) -> None:
    answer = bridge.request(
        "POST", "/acp/sendMessage", {"composerId": "quiet", "modelName": "acp:testy", "text": "echo a\nwait"}
    )
    while b'"text"' not in answer.readline():
        pass
    answer.close()
    follower = bridge.request("GET", "/acp/sessions/quiet/events")
    assert bridge.ask("GET", "/acp/sessions/quiet")[1]["generating"]
    assert bridge.ask("POST", "/acp/abort", {"composerId": "quiet"}) == (200, {"aborted": True})
    with follower:
        while b'"cancelled"' not in follower.readline():
            pass


def test_a_stream_that_is_not_read_ends_with_an_error_and_the_turn_goes_on(bridge: Bridge) -> None:
    body = {"composerId": "unread", "modelName": "acp:testy", "text": "flood 400 100000"}
    answer = bridge.request("POST", "/acp/sendMessage", body)
    while bridge.ask("GET", "/acp/sessions")[1]["sessions"][0]["generating"]:
        pass
    *told, last = events(answer)
    assert last == {"type": "error", "message": "this stream was read too slowly; read the session again"}
    assert "done" not in kinds(told)
    assert len(bridge.ask("GET", "/acp/sessions/unread")[1]["bubbles"][1]["text"]) == 400 * 100_000


def test_an_agent_that_dies_is_told_and_the_next_message_starts_another(bridge: Bridge) -> None:
    told = list(bridge.send("crashing", "crash 3"))
    assert told[-1]["type"] == "error"
    assert told[-1]["message"]
    assert bridge.said("crashing", "echo alive").endswith("alive")  # after what it was told of the conversation


def test_a_composer_that_is_deleted_is_gone(bridge: Bridge) -> None:
    bridge.said("gone", "echo x")
    assert bridge.ask("DELETE", "/acp/sessions/gone") == (200, {"deleted": True})
    assert bridge.ask("GET", "/acp/sessions/gone")[0] == 404
    assert bridge.said("gone", "echo anew") == "anew"
    assert len(bridge.ask("GET", "/acp/sessions/gone")[1]["bubbles"]) == 2


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_conversation_goes_on_after_a_restart(tmp_path: Path, number: int) -> None:
    with bridging(tmp_path) as bridge:
        bridge.said("kept", "echo before")
        before = bridge.ask("GET", "/acp/sessions/kept")
        running = bridge.send("kept", "wait")
        assert next(running) == {"type": "generating", "composerId": "kept", "generating": True}
        assert next(running)["bubble"]["text"] == "wait"
        bridge.stop(number)
    with bridging(tmp_path) as bridge:
        assert bridge.ask("GET", "/acp/sessions")[1]["sessions"][0]["composerId"] == "kept"
        after = bridge.ask("GET", "/acp/sessions/kept")
        assert after[1]["bubbles"][:2] == before[1]["bubbles"]
        assert [bubble["text"] for bubble in after[1]["bubbles"]][2] == "wait"
        told = list(bridge.send("kept", "echo after"))
        shown = [event["bubble"]["bubbleId"] for event in told if event["type"] == "bubble"]
        assert shown == ["kept:3:1", "kept:3:2"]
        assert [bubble["text"] for bubble in bridge.ask("GET", "/acp/sessions/kept")[1]["bubbles"]][-1].endswith(
            "after"
        )


def test_a_message_is_a_bubble_only_once_it_is_on_the_disk(tmp_path: Path) -> None:
    with bridging(tmp_path) as bridge:
        bridge.said("held", "echo before")
        (file,) = (tmp_path / "state").rglob(FILE)
        with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as other:
            other.execute("begin immediate")  # nothing can be written meanwhile
            running = bridge.send("held", "echo lost")
            assert next(running)["type"] == "generating"
            bridge.stop(signal.SIGKILL)
            with contextlib.suppress(http.client.IncompleteRead):
                assert not kinds(list(running))
    with bridging(tmp_path) as bridge:
        assert [each["text"] for each in bridge.ask("GET", "/acp/sessions/held")[1]["bubbles"]] == [
            "echo before",
            "before",
        ]


GOOD = {"composerId": "refused", "modelName": "acp:testy", "text": "echo x"}


@pytest.mark.parametrize(
    ("status", "headers"),
    [
        (403, {"origin": "https://evil.example"}),
        (403, {"origin": "null"}),
        (421, {"host": "evil.example:37842"}),
        (421, {"host": "localhost"}),
        (401, {"authorization": ""}),
        (401, {"authorization": "Bearer wrong"}),
        (415, {"content-type": "text/plain"}),
    ],
)
def test_who_may_not_send_is_refused_before_anything_happens(
    bridge: Bridge, status: int, headers: dict[str, str]
) -> None:
    assert bridge.ask("POST", "/acp/sendMessage", GOOD, **headers)[0] == status
    assert bridge.ask("GET", "/acp/sessions/refused")[0] == 404


def test_two_origins_or_hosts_are_refused(bridge: Bridge) -> None:
    for twice, status in (("Origin: vscode-file://vscode-app", b"403"), (f"Host: localhost:{bridge.port}", b"400")):
        with socket.create_connection(("localhost", bridge.port), PATIENCE) as raw:
            head = (
                f"GET /acp/agents HTTP/1.1\r\nHost: localhost:{bridge.port}\r\nAuthorization: Bearer {bridge.token}"
            )
            also = f"\r\n{twice}\r\nOrigin: https://evil.example" if "Origin" in twice else f"\r\n{twice}"
            raw.sendall(f"{head}{also}\r\nConnection: close\r\n\r\n".encode())
            answer = raw.makefile("rb").readline()
            assert status in answer


@pytest.mark.parametrize(
    ("status", "told", "change"),
    [
        (400, "no model 'gpt-5'", {"modelName": "gpt-5"}),
        (400, "no model 'acp:nobody'", {"modelName": "acp:nobody"}),
        (400, "composerId", {"composerId": "../../etc"}),
        (400, "empty", {"text": ""}),
        (400, "prompt", {"prompt": [{"type": "nothing", "x": 1}, 5]}),
        (400, "absolute", {"workspacePath": "here"}),
        (400, "workspace", {"workspacePath": "/etc"}),
        (400, "composerId", {"composerId": None}),
    ],
)
def test_a_message_that_makes_no_sense_is_refused_with_a_sentence(
    bridge: Bridge, status: int, told: str, change: dict[str, Any]
) -> None:
    answered, answer = bridge.ask("POST", "/acp/sendMessage", {**GOOD, **change})
    assert (answered, told in answer["error"]) == (status, True), answer


def test_a_body_has_a_limit(bridge: Bridge) -> None:
    with socket.create_connection(("localhost", bridge.port), PATIENCE) as raw:
        head = f"POST /acp/sendMessage HTTP/1.1\r\nHost: localhost:{bridge.port}\r\n"
        head += f"Authorization: Bearer {bridge.token}\r\nContent-Type: application/json\r\n"
        raw.sendall(f"{head}Content-Length: {100 * 1024**2}\r\n\r\n".encode())
        try:
            for _ in range(100):
                raw.sendall(b"x" * 1024**2)
        except OSError:
            pass  # it reads no further
        assert b"413" in raw.makefile("rb").readline()


def test_the_composer_of_somebody_else_is_indistinguishable_from_a_missing_one(tmp_path: Path) -> None:
    with bridging(tmp_path) as bridge:
        bridge.said("mine", "echo secret")
        waiting = bridge.send("mine", "ask allow_once reject_once")
        question = next(event for event in waiting if event["type"] == "permission")
        token = add_token(tmp_path / "state" / "tokens.json", "eve", "eve")
        other = Bridge(bridge.process, bridge.port, token)
        answer = {"composerId": "mine", "requestId": question["requestId"], "optionId": "allow_once"}
        for composer in ("mine", "missing"):
            assert other.ask("GET", f"/acp/sessions/{composer}") == (404, {"error": "there is no such composer"})
            assert other.ask("GET", f"/acp/sessions/{composer}/events")[0] == 404
            assert other.ask("DELETE", f"/acp/sessions/{composer}")[0] == 404
            assert other.ask("POST", "/acp/abort", {"composerId": composer})[0] == 404
            assert other.ask("POST", "/acp/permission", {**answer, "composerId": composer})[0] == 404
        assert other.ask("GET", "/acp/sessions") == (200, {"sessions": []})
        assert other.said("mine", "echo other") == "other"  # one of their own, by the same name
        assert len(other.ask("GET", "/acp/sessions/mine")[1]["bubbles"]) == 2
        assert bridge.ask("POST", "/acp/abort", {"composerId": "mine"}) == (200, {"aborted": True})


def test_cursors_own_window_may_ask_and_read(bridge: Bridge) -> None:
    page = {"origin": "vscode-file://vscode-app"}
    with bridge.request("OPTIONS", "/acp/sendMessage", authorization="", **page) as preflight:
        assert preflight.status == 204
        assert preflight.headers["access-control-allow-origin"] == page["origin"]
        assert "authorization" in preflight.headers["access-control-allow-headers"]
    with bridge.request("GET", "/acp/agents", **page) as answer:
        assert (answer.status, answer.headers["access-control-allow-origin"]) == (200, page["origin"])
    with bridge.request("OPTIONS", "/acp/sendMessage", origin="https://evil.example") as refused:
        assert (refused.status, refused.headers["access-control-allow-origin"]) == (403, None)


CHAT = """
import { acpExtensionBridge } from "%s";
const bridge = acpExtensionBridge({ token: "%s", url: "http://localhost:%d" });
const heard = [];
const composer = {
  onBubble: (bubble) => heard.push(["bubble", bubble.type]),
  onText: (id, text) => heard.push(["text", text]),
  onGenerating: (on) => heard.push(["generating", on]),
  onPermission: async (question) => question.options.find((option) => option.kind === "allow_once").optionId,
  onDone: (reason) => heard.push(["done", reason]),
};
const chat = { composerId: "node", modelName: "acp:testy" };
const say = (text) => bridge.submitChatMaybeAbortCurrent(composer, { ...chat, text });
const waiting = say("echo begun\\nwait");
while (!heard.some(([kind]) => kind === "text")) await new Promise(setImmediate);
await say("ask allow_once reject_once");
await waiting;
const shown = await bridge.session("node");
console.log(JSON.stringify({ heard, models: await bridge.models(), bubbles: shown.bubbles.length,
  handles: [bridge.handles("acp:testy"), bridge.handles("gpt-5")],
  refused: await say("").catch((error) => error.message) }));
"""


@pytest.mark.skipif(not shutil.which("node"), reason="Node is not installed")
def test_the_patch_drives_a_conversation_in_node(bridge: Bridge, tmp_path: Path) -> None:
    chat = tmp_path / "chat.mjs"
    module = tmp_path / "patch.mjs"
    shutil.copy(PATCH, module)
    chat.write_text(CHAT % (module, bridge.token, bridge.port))
    done = subprocess.run(["node", str(chat)], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["models"] == [{"name": "acp:testy", "title": "Testy, the scripted agent"}]
    assert told["handles"] == [True, False]
    assert told["bubbles"] == 4
    assert "empty" in told["refused"]
    assert ["done", "cancelled"] in told["heard"]
    assert told["heard"][-1] == ["done", "end_turn"]
    assert [one for one in told["heard"] if one[0] == "generating"] == [
        ["generating", True],
        ["generating", False],
        ["generating", True],
        ["generating", False],
    ]


@pytest.mark.skipif(not shutil.which("node"), reason="Node is not installed")
def test_the_script_of_the_guide_works(bridge: Bridge, tmp_path: Path) -> None:
    guide = (Path(__file__).parents[2] / "docs" / "programs" / "cursor.md").read_text()
    [script] = re.findall(r"```js\n(.*?)```", guide, re.DOTALL)
    shutil.copy(PATCH, tmp_path / "patch.mjs")
    given = f'const token = "{bridge.token}", write = (text) => process.stdout.write(text);\n'
    script = script.replace("./patch.js", "./patch.mjs").replace(":37842", f":{bridge.port}")
    (tmp_path / "chat.mjs").write_text(given + script)
    done = subprocess.run(
        ["node", "chat.mjs"], cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert (done.returncode, done.stdout) == (0, "Hello"), done.stderr

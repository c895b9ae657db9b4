"""Editors that answer wrongly, not at all, or go: whoever waits for them has an end."""

import asyncio
import json
import os
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from patience import PATIENCE

from dragoman import schema as s
from dragoman.bridges.lsp import turns
from dragoman.bridges.lsp.editor import EditorHost
from dragoman.bridges.lsp.server import EditorBridge
from dragoman.errors import InvalidRequest
from dragoman.host.processes import Launch
from dragoman.lsp.positions import ENCODINGS, edited
from dragoman.testing import Testy, pair

from .test_editor import AGENT, TEXT

pytestmark = pytest.mark.usefixtures("nothing_left")
CAPABILITIES = {
    "window": {"workDoneProgress": True, "showMessage": {}},
    "workspace": {"applyEdit": True, "workspaceEdit": {"documentChanges": True}},
}
NOTHING = object()  # for an answer that does not come


class RawEditor:
    """Sends and takes messages as they are; `answers` has results by method: values, or functions of the params."""

    def __init__(self, bridge: EditorBridge) -> None:
        self._protocol = bridge.server.protocol
        self._protocol.set_writer(self, include_headers=False)  # type: ignore[arg-type]
        self._results: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self.answers: dict[str, Any] = {}
        self.asked: list[dict[str, Any]] = []

    def write(self, data: bytes) -> None:
        message = json.loads(data)
        if "method" not in message:
            self._results[message["id"]].set_result(message)
        elif "id" in message:
            self.asked.append(message)
            result = self.answers.get(message["method"])
            result = result(message["params"]) if callable(result) else result
            if result is not NOTHING:
                asyncio.get_running_loop().call_soon(self.send, {"id": message["id"], "result": result})

    def close(self) -> None:
        pass

    def send(self, message: dict[str, Any]) -> None:
        """Have the bridge read a message, as its reader does."""
        data = json.dumps({"jsonrpc": "2.0", **message})
        try:
            read = json.loads(data, object_hook=self._protocol.structure_message)
        except Exception:  # which the reader logs
            return
        self._protocol.handle_message(read)

    async def ask(self, method: str, params: Any) -> dict[str, Any]:
        """The whole answer to a request."""
        id = len(self._results) + 1
        answer = self._results[id] = asyncio.get_running_loop().create_future()
        self.send({"id": id, "method": method, "params": params})
        return await answer

    async def order(self, command: str, *arguments: Any) -> dict[str, Any]:
        return await self.ask("workspace/executeCommand", {"command": command, "arguments": list(arguments)})


@asynccontextmanager
async def editing(directory: Path, encoding: str = "utf-16") -> AsyncIterator[tuple[RawEditor, EditorBridge]]:
    bridge = EditorBridge(Launch(command=sys.executable, args=AGENT.split()[1:], name="mender"), reviews=False)
    editor = RawEditor(bridge)
    try:
        async with asyncio.timeout(PATIENCE):
            capabilities = {**CAPABILITIES, "general": {"positionEncodings": [encoding]}}
            root = {"processId": None, "rootUri": directory.as_uri(), "capabilities": capabilities}
            said = await editor.ask("initialize", root)
            assert said["result"]["capabilities"]["positionEncoding"] == encoding
            yield editor, bridge
    finally:
        await bridge.close()
        bridge.server.shutdown()


def opened(editor: RawEditor, path: Path, text: str = TEXT) -> str:
    path.write_text(text)
    item = {"uri": path.as_uri(), "languageId": "python", "version": 1, "text": text}
    editor.send({"method": "textDocument/didOpen", "params": {"textDocument": item}})
    return path.as_uri()


@pytest.mark.parametrize("answer", ["Allow once", 7, [], {"title": 5}, {"title": "Allow once", "more": 1}])
async def test_an_answer_that_is_no_choice_is_a_no(answer: Any, tmp_path: Path) -> None:
    async with editing(tmp_path) as (editor, _):
        uri = opened(editor, tmp_path / "a.py")
        editor.answers = {"window/showMessageRequest": answer, "workspace/applyEdit": {"applied": True}}
        done = await editor.order("dragoman.fix", uri, [4, 4], ["undefined name nmae"])
        is_yes = isinstance(answer, dict) and answer["title"] == "Allow once"  # with something that we do not know
        assert ("error" in done) == (not is_yes)
        assert ("workspace/applyEdit" in [asked["method"] for asked in editor.asked]) == is_yes


@pytest.mark.parametrize("answer", [None, True, "yes", {}, {"applied": False}])
async def test_an_edit_that_the_editor_does_not_confirm_has_failed(answer: Any, tmp_path: Path) -> None:
    async with editing(tmp_path) as (editor, _):
        uri = opened(editor, tmp_path / "a.py")
        editor.answers = {"window/showMessageRequest": {"title": "Allow once"}, "workspace/applyEdit": answer}
        done = await editor.order("dragoman.fix", uri, [4, 4], ["undefined name nmae"])
        assert "did not edit" in done["error"]["message"]


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("text", ["a = 1\f\u2028\x85\nmore\r\n\U0001f600é = nmae", "é nmae \U0001f600\rb\n"])
async def test_an_edit_is_where_the_editor_counts_it(text: str, encoding: str, tmp_path: Path) -> None:
    async with editing(tmp_path, encoding) as (editor, _):
        uri = opened(editor, tmp_path / "a.py", "something else")
        change = {"textDocument": {"uri": uri, "version": 2}, "contentChanges": [{"text": text}]}
        editor.send({"method": "textDocument/didChange", "params": change})
        editor.answers = {
            "window/showMessageRequest": {"title": "Allow once"},
            "workspace/applyEdit": {"applied": True},
        }
        await editor.order("dragoman.fix", uri, [0, 0], ["undefined name nmae"])
        (edit,) = (asked["params"]["edit"] for asked in editor.asked if asked["method"] == "workspace/applyEdit")
        (change,) = edit["documentChanges"]
        assert edited(text, change["edits"], encoding) == text.replace("nmae", "name")


@pytest.mark.parametrize("answer", [NOTHING, {"an": "object"}])
async def test_a_turn_waits_for_no_progress_that_the_editor_does_not_show(
    answer: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "CREATE", 0.1)
    async with editing(tmp_path) as (editor, _):
        editor.answers = {"window/workDoneProgress/create": answer}
        for words in ("one", "two"):
            assert (await editor.order("dragoman.chat", words))["result"] == f"You said: {words}"


async def test_a_request_that_cannot_be_read_is_answered_with_an_error(tmp_path: Path) -> None:
    async with editing(tmp_path) as (editor, _):
        for params in (None, [], {"textDocument": 5}, {"textDocument": {"uri": "file:///a.py"}, "range": "all"}):
            assert (await editor.ask("textDocument/codeAction", params))["error"]["code"] in (-32602, -32603)
        assert "no/such" in (await editor.ask("no/such", {}))["error"]["message"]
        for id in ("unknown", 7, None, [1]):
            editor.send({"id": id, "result": "what nobody asked"})
        assert (await editor.order("dragoman.chat", "hello"))["result"] == "You said: hello"


async def test_each_write_waits_for_its_own_edit(tmp_path: Path) -> None:
    async with editing(tmp_path) as (editor, bridge):
        paths = [tmp_path / f"{name}.py" for name in "abc"]
        uris = [opened(editor, path) for path in paths]

        def applied(params: Any) -> Any:
            return {"applied": uris[1] not in json.dumps(params), "failureReason": "not this one"}

        editor.answers = {"workspace/applyEdit": applied}
        host = EditorHost(bridge.server, "mender", "allow-all")
        async with pair(Testy, host):
            session = await host.new_session(tmp_path)
            writes = [
                host.write_text_file(s.WriteTextFileRequest(session_id=session.id, path=str(path), content="new\n"))
                for path in paths
            ]
            outcomes = await asyncio.gather(*writes, return_exceptions=True)
            assert "_dragoman/fs/write_text_file" in str(host.capabilities().meta)
    assert [type(outcome) for outcome in outcomes] == [
        s.WriteTextFileResponse,
        InvalidRequest,
        s.WriteTextFileResponse,
    ]


async def test_an_editor_that_goes_in_the_middle_of_a_message_leaves_nothing(tmp_path: Path) -> None:
    homes = {name: str(tmp_path / name) for name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME")}
    words = ["-I", "-m", "dragoman", "lsp", "--agent", AGENT]
    pipes = {"stdin": PIPE, "stdout": PIPE, "stderr": PIPE}
    process = await asyncio.create_subprocess_exec(sys.executable, *words, env={**os.environ, **homes}, **pipes)
    first = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"capabilities": {}}}).encode()
    half = b'Content-Length: 1000\r\n\r\n{"jsonrpc": "2.0", '
    async with asyncio.timeout(PATIENCE):
        said, _ = await process.communicate(b"Content-Length: %d\r\n\r\n%s" % (len(first), first) + half)
    assert process.returncode == 0 and b'"capabilities"' in said

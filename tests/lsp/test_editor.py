"""Editors drive agents through `dragoman lsp`: pytest-lsp's client, and Neovim's own."""

import ast
import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types
from patience import PATIENCE
from pytest_lsp import LanguageClient, client_capabilities

AGENT = f"{sys.executable} {Path(__file__).with_name('editor_agent.py')}"
TEXT = "import os\n\n\ndef greet(name: str) -> str:\n    return nmae\n"


class Editor(LanguageClient):
    """Applies edits to the texts that it has open, and answers questions as it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: dict[str, str] = {}
        self.answers: list[str | None] = []
        self.asked: list[types.ShowMessageRequestParams] = []
        self.edits: list[types.ApplyWorkspaceEditParams] = []
        self.reports = asyncio.Event()
        self.tokens: list[Any] = []
        self.feature(types.WORKSPACE_APPLY_EDIT)(lambda params: self.apply(params))
        self.feature(types.WINDOW_SHOW_MESSAGE_REQUEST)(lambda params: self.choose(params))
        self.feature(types.WINDOW_WORK_DONE_PROGRESS_CREATE)(lambda params: self.create(params))

    def apply(self, params: types.ApplyWorkspaceEditParams) -> types.ApplyWorkspaceEditResult:
        self.edits.append(params)
        for change in params.edit.document_changes or ():
            assert isinstance(change, types.TextDocumentEdit)
            lines = self.texts[change.text_document.uri].splitlines(keepends=True)
            for edit in change.edits:
                assert isinstance(edit, types.AnnotatedTextEdit)
                lines[edit.range.start.line : edit.range.end.line] = [edit.new_text]
            self.texts[change.text_document.uri] = "".join(lines)
        return types.ApplyWorkspaceEditResult(applied=True)

    def choose(self, params: types.ShowMessageRequestParams) -> types.MessageActionItem | None:
        self.asked.append(params)
        title = self.answers.pop(0)
        return None if title is None else types.MessageActionItem(title)

    def create(self, params: types.WorkDoneProgressCreateParams) -> None:
        self.tokens.append(params.token)
        self.reports.set()

    def open(self, path: Path) -> str:
        uri = path.as_uri()
        self.texts[uri] = path.read_text()
        item = types.TextDocumentItem(uri=uri, language_id="python", version=1, text=self.texts[uri])
        self.text_document_did_open(types.DidOpenTextDocumentParams(item))
        return uri


@asynccontextmanager
async def editing(directory: Path, *words: str) -> AsyncIterator[Editor]:
    editor = Editor()
    homes = {name: str(directory / name) for name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME")}
    command = ["-I", "-m", "dragoman", "lsp", "--agent", AGENT, *words]
    await editor.start_io(sys.executable, *command, env={**os.environ, **homes})
    work = directory / "work"
    work.mkdir(exist_ok=True)
    params = types.InitializeParams(capabilities=client_capabilities("visual-studio-code"), root_uri=work.as_uri())
    await editor.initialize_session(params)
    try:
        yield editor
    finally:
        await editor.shutdown_session()
        await editor.stop()


async def fixed(editor: Editor, uri: str) -> object:
    """Take the first code action for the line with the mistake."""
    there = types.Range(types.Position(4, 11), types.Position(4, 15))
    mistake = types.Diagnostic(there, "undefined name nmae")
    params = types.CodeActionParams(types.TextDocumentIdentifier(uri), there, types.CodeActionContext([mistake]))
    actions = await editor.text_document_code_action_async(params)
    titles = [action.title for action in actions or ()]
    assert [title.split(" with ")[0] for title in titles] == ["Fix this", "Explain", "Review this file"]
    # lsprotocol reads a code action that has a command as a command whose name is the text of that.
    command = ast.literal_eval(str((actions or ())[0].command))
    order = types.ExecuteCommandParams(command["command"], command["arguments"])
    return await editor.workspace_execute_command_async(order)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    path = tmp_path / "work" / "a.py"
    path.write_text(TEXT)
    return path


async def test_a_code_action_is_applied_as_an_edit_after_permission(file: Path, tmp_path: Path) -> None:
    async with asyncio.timeout(PATIENCE), editing(tmp_path) as editor:
        uri = editor.open(file)
        editor.answers = ["Allow once", "Allow once"]
        assert await fixed(editor, uri) == "Mended."
        assert editor.texts[uri] == TEXT.replace("nmae", "name")
        assert file.read_text() == TEXT  # saving it is the editor's business
        (edit,) = editor.edits
        (annotation,) = (edit.edit.change_annotations or {}).values()
        assert annotation.label.startswith("By ")


@pytest.mark.parametrize("answer", [None, "Deny", "Allow", "allow_once"])
async def test_anything_but_a_clear_yes_changes_nothing(answer: str | None, file: Path, tmp_path: Path) -> None:
    async with asyncio.timeout(PATIENCE), editing(tmp_path) as editor:
        uri = editor.open(file)
        editor.answers = ["Allow once", answer]
        with pytest.raises(Exception, match=r".+"):
            await fixed(editor, uri)
        assert editor.asked
        assert editor.texts[uri] == TEXT and not editor.edits
        assert file.read_text() == TEXT


async def test_a_turn_is_cancelled_from_its_progress_and_the_next_one_runs(file: Path, tmp_path: Path) -> None:
    async with asyncio.timeout(PATIENCE), editing(tmp_path) as editor:
        editor.open(file)
        waiting = asyncio.ensure_future(chat(editor, "wait"))
        await editor.reports.wait()
        editor.window_work_done_progress_cancel(types.WorkDoneProgressCancelParams(editor.tokens[0]))
        with pytest.raises(Exception, match="the turn was cancelled"):
            await waiting
        assert await chat(editor, "hello") == "You said: hello"


def chat(editor: Editor, text: str) -> Any:
    return editor.workspace_execute_command_async(types.ExecuteCommandParams("dragoman.chat", [text]))


NEOVIM = """
local function wait(what, done)
  if not vim.wait(%(milliseconds)d, done, 50) then print('NEVER: ' .. what); vim.cmd('cquit') end
end
vim.lsp.handlers['window/showMessageRequest'] = function(_, params)
  for _, action in ipairs(params.actions) do
    if action.title == '%(answer)s' then return action end
  end
  return vim.NIL
end
local id = vim.lsp.start_client({ name = 'dragoman', cmd = %(command)s, root_dir = vim.fn.getcwd() })
vim.lsp.buf_attach_client(0, id)
wait('diagnostics', function() return #vim.diagnostic.get(0) > 0 end)
local codes = {}
for _, found in ipairs(vim.diagnostic.get(0)) do table.insert(codes, found.code) end
table.sort(codes)
print('found ' .. table.concat(codes, ' '))
local client = vim.lsp.get_client_by_id(id)
vim.api.nvim_win_set_cursor(0, { 5, 11 })
local params = vim.lsp.util.make_range_params()
params.context = { diagnostics = { { range = params.range, message = 'undefined name nmae' } } }
local actions = client.request_sync('textDocument/codeAction', params, %(milliseconds)d).result
print(actions[1].title)
local done = client.request_sync('workspace/executeCommand', actions[1].command, %(milliseconds)d)
print(done.err and 'failed' or done.result)
print(vim.api.nvim_buf_get_lines(0, 4, 5, false)[1])
client.stop()
wait('end', function() return client.is_stopped() end)
vim.cmd('qall!')
"""


@pytest.mark.skipif(not shutil.which("nvim"), reason="neovim is not installed (scripts/test-programs does)")
@pytest.mark.parametrize(("answer", "last"), [("Allow once", "    return name"), ("Deny", "    return nmae")])
def test_neovim_has_an_agent_without_a_plugin(file: Path, tmp_path: Path, answer: str, last: str) -> None:
    words = [sys.executable, "-I", "-m", "dragoman", "lsp", "--agent", AGENT]
    command = "{" + ", ".join(f"[[{word}]]" for word in words) + "}"
    script = tmp_path / "drive.lua"
    script.write_text(NEOVIM % {"milliseconds": PATIENCE * 1000 / 3, "answer": answer, "command": command})
    homes = {name: str(tmp_path / name) for name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME")}
    done = subprocess.run(
        ["nvim", "--headless", "-u", "NONE", "-i", "NONE", "-n", file.name, "-c", f"luafile {script}"],
        cwd=file.parent,
        env={**os.environ, **homes},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    told = done.stderr.replace("\r", "").splitlines()
    assert told[0].startswith("found ") and "F821" in told[0]
    assert told[1].startswith("Fix this with ")
    assert ("failed" in told) == (answer == "Deny")
    assert told[-1].rstrip() == last
    assert file.read_text() == TEXT

"""Editors drive agents through `dragoman lsp`: pytest-lsp's client."""

import ast
import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable
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
        self.codes: dict[str, set[object]] = {}  # of the diagnostics, by file
        self.published = asyncio.Event()
        self.feature(types.WORKSPACE_APPLY_EDIT)(lambda params: self.apply(params))
        self.feature(types.WINDOW_SHOW_MESSAGE_REQUEST)(lambda params: self.choose(params))
        self.feature(types.WINDOW_WORK_DONE_PROGRESS_CREATE)(lambda params: self.create(params))
        self.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)(lambda params: self.publish(params))

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

    def publish(self, params: types.PublishDiagnosticsParams) -> None:
        self.codes[params.uri] = {found.code for found in params.diagnostics}
        self.published.set()

    async def diagnosed(self, uri: str, done: Callable[[set[object]], bool]) -> set[object]:
        """The codes of the diagnostics of a file, once they are as they have to be."""
        while uri not in self.codes or not done(self.codes[uri]):
            self.published.clear()
            await self.published.wait()
        return self.codes[uri]

    def open(self, path: Path) -> str:
        uri = path.as_uri()
        self.texts[uri] = path.read_text()
        item = types.TextDocumentItem(uri=uri, language_id="python", version=1, text=self.texts[uri])
        self.text_document_did_open(types.DidOpenTextDocumentParams(item))
        return uri


@asynccontextmanager
async def editing(directory: Path, *words: str, agent: str = AGENT) -> AsyncIterator[Editor]:
    editor = Editor()
    homes = {name: str(directory / name) for name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME")}
    command = ["-I", "-m", "dragoman", "lsp", "--agent", agent, *words]
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


async def test_diagnostics_of_the_reviewer_follow_the_text_that_is_being_written(
    file: Path, tmp_path: Path
) -> None:
    async with asyncio.timeout(PATIENCE), editing(tmp_path) as editor:
        uri = editor.open(file)
        await editor.diagnosed(uri, lambda codes: "F821" in codes)
        identifier = types.VersionedTextDocumentIdentifier(version=2, uri=uri)
        whole = types.TextDocumentContentChangeWholeDocument(TEXT.replace("nmae", "name"))
        editor.text_document_did_change(types.DidChangeTextDocumentParams(identifier, [whole]))
        codes = await editor.diagnosed(uri, lambda codes: "F821" not in codes)
        assert "F401" in codes  # what is still wrong
        editor.text_document_did_close(types.DidCloseTextDocumentParams(types.TextDocumentIdentifier(uri)))
        await editor.diagnosed(uri, lambda codes: not codes)


UNOPENABLE = """
import os, sys
from dragoman import Agent, serve

class Unopenable(Agent):
    async def new_session(self, params):
        with open(sys.argv[1], "a") as file:
            print(os.getpid(), file=file)
        raise RuntimeError("no session today")

serve(Unopenable)
"""


async def test_an_agent_that_opens_no_session_is_not_kept(tmp_path: Path) -> None:
    script, pids = tmp_path / "agent.py", tmp_path / "pids"
    script.write_text(UNOPENABLE)
    async with asyncio.timeout(PATIENCE), editing(tmp_path, agent=f"{sys.executable} {script} {pids}") as editor:
        for count in (1, 2):
            with pytest.raises(Exception, match="answered: Internal error"):
                await chat(editor, "hello")
            started = [int(line) for line in pids.read_text().split()]
            assert len(started) == count and not [pid for pid in started if Path(f"/proc/{pid}").exists()]


async def test_a_code_action_is_about_a_number_of_problems_that_fits_in_a_prompt(
    file: Path, tmp_path: Path
) -> None:
    async with asyncio.timeout(PATIENCE), editing(tmp_path, "--no-review") as editor:
        uri = editor.open(file)
        there = types.Range(types.Position(4, 11), types.Position(4, 15))
        many = [types.Diagnostic(there, "wrong " * 10_000)] * 100
        params = types.CodeActionParams(types.TextDocumentIdentifier(uri), there, types.CodeActionContext(many))
        actions = await editor.text_document_code_action_async(params)
        assert len(str((actions or ())[0].command)) < 150_000


async def test_a_command_with_wrong_arguments_is_refused_in_a_sentence(file: Path, tmp_path: Path) -> None:
    async with asyncio.timeout(PATIENCE), editing(tmp_path, "--no-review") as editor:
        uri = editor.open(file)
        wrong: list[tuple[str, list[Any], str]] = [
            ("dragoman.fix", [uri, [0], []], "its first and last line"),
            ("dragoman.fix", ["file:///nowhere.py", [0, 1], []], "is not open in the editor"),
            ("dragoman.explain", [uri, ["a", "b"], []], "its first and last line"),
            ("dragoman.explain", [uri, [-1, 0], []], "its first and last line"),
            ("dragoman.review", ["file:///nowhere.py"], "is not open in the editor"),
            ("dragoman.review", [], "takes the URI of an open file"),
            ("dragoman.chat", [], "takes a text"),
            ("dragoman.chat", ["hello", 5], "the URIs of files"),
        ]
        for command, arguments, why in wrong:
            with pytest.raises(Exception, match=why):
                await editor.workspace_execute_command_async(types.ExecuteCommandParams(command, arguments))

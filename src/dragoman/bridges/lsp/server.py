"""The language server: what an editor can do with an agent, as code actions and commands."""

import asyncio
import functools
import logging
import os
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Annotated, Any, BinaryIO, TypeVar

import msgspec
from lsprotocol import types
from pygls.exceptions import JsonRpcException
from pygls.io_ import StdinAsyncReader, StdoutWriter, run_async
from pygls.lsp.server import LanguageServer

from ... import __version__
from ... import schema as s
from ...errors import Error, RpcError
from ...host.permissions.engine import Preset
from ...host.processes import Launch
from ...lsp.positions import split_lines
from .protocol import EditorProtocol
from .reviewing import PAUSE, LiveReview
from .turns import EditorTurns

FIX, EXPLAIN, REVIEW, CHAT = "dragoman.fix", "dragoman.explain", "dragoman.review", "dragoman.chat"
REQUEST_FAILED = -32803
MAX_SHOWN = 4000  # characters of an answer in a message of the editor
MAX_PROBLEMS = 50  # diagnostics that a code action is about
MAX_MESSAGE = 2000  # characters of each
MAX_QUOTED = 20_000  # characters of a file's lines in a prompt


Line = Annotated[int, msgspec.Meta(ge=0)]


class EditorPassage(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """Lines of a file, and what is wrong there."""

    uri: str
    lines: tuple[Line, Line]
    problems: list[str]


T = TypeVar("T")


class EditorBridge:
    """The handlers of the language server; `close` ends the agent and the checks."""

    def __init__(self, agent: Launch, preset: Preset = "ask", *, reviews: bool = True) -> None:
        # Whole texts: the library ends lines where LSP does not, and would put other changes in the wrong places.
        whole = types.TextDocumentSyncKind.Full
        self.server = LanguageServer(
            "dragoman", __version__, text_document_sync_kind=whole, protocol_cls=EditorProtocol
        )
        self._name = agent.name or "the agent"
        self._turns = EditorTurns(self.server, agent, preset)
        self._review = LiveReview(self.server)
        self._reviews = reviews
        feature, command = self.server.feature, self.server.command
        feature(types.TEXT_DOCUMENT_DID_OPEN)(_function(self._opened))
        feature(types.TEXT_DOCUMENT_DID_CHANGE)(_function(self._changed))
        feature(types.TEXT_DOCUMENT_DID_SAVE)(_function(self._saved))
        feature(types.TEXT_DOCUMENT_DID_CLOSE)(_function(self._closed))
        kinds = [types.CodeActionKind.QuickFix, types.CodeActionKind.Empty]
        feature(types.TEXT_DOCUMENT_CODE_ACTION, types.CodeActionOptions(code_action_kinds=kinds))(
            _function(self._actions)
        )
        command(FIX)(_function(self._fix))
        command(EXPLAIN)(_function(self._explain))
        command(REVIEW)(_function(self._look))
        command(CHAT)(_function(self._chat))

    async def close(self) -> None:
        await self._turns.close()
        await self._review.close()

    # Documents

    def _opened(self, params: types.DidOpenTextDocumentParams) -> None:
        self._look_soon(params.text_document.uri)

    def _changed(self, params: types.DidChangeTextDocumentParams) -> None:
        self._look_soon(params.text_document.uri, PAUSE)

    def _saved(self, params: types.DidSaveTextDocumentParams) -> None:
        self._look_soon(params.text_document.uri)

    def _closed(self, params: types.DidCloseTextDocumentParams) -> None:
        uri = params.text_document.uri
        self._review.forget(uri)
        self.server.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri=uri, diagnostics=[]))

    def _look_soon(self, uri: str, pause: float = 0.0) -> None:
        if self._reviews:
            self._review.begin(uri, pause)

    # Actions

    def _actions(self, params: types.CodeActionParams) -> list[types.CodeAction]:
        uri, lines = params.text_document.uri, [params.range.start.line, params.range.end.line]
        problems = params.context.diagnostics[:MAX_PROBLEMS]
        messages = [diagnostic.message[:MAX_MESSAGE] for diagnostic in problems]
        found = []
        if messages:
            title = f"Fix this with {self._name}"
            fix = types.Command(title=title, command=FIX, arguments=[uri, lines, messages])
            kind = types.CodeActionKind.QuickFix
            found.append(types.CodeAction(title=title, kind=kind, command=fix, diagnostics=list(problems)))
        for title, name in ((f"Explain with {self._name}", EXPLAIN), ("Review this file", REVIEW)):
            arguments = [uri] if name == REVIEW else [uri, lines, messages]
            command = types.Command(title=title, command=name, arguments=arguments)
            found.append(types.CodeAction(title=title, kind=types.CodeActionKind.Empty, command=command))
        return found

    async def _fix(self, *arguments: Any) -> str:
        words = "Fix these problems, and change nothing else:"
        return await self._asked(f"Fix with {self._name}", words, _passage(FIX, arguments))

    async def _explain(self, *arguments: Any) -> str:
        said = await self._asked(f"Explain with {self._name}", "Explain these lines.", _passage(EXPLAIN, arguments))
        shown = said if len(said) <= MAX_SHOWN else f"{said[:MAX_SHOWN]}…"
        self.server.window_show_message(types.ShowMessageParams(type=types.MessageType.Info, message=shown))
        return said

    async def _look(self, *arguments: Any) -> int:
        """Review a file now; gives how much was found."""
        (uri,) = _given(arguments, tuple[str], f"{REVIEW} takes the URI of an open file")
        if uri not in self.server.workspace.text_documents:
            raise _failed(f"{uri} is not open in the editor")
        if (count := await self._review.look(uri)) is None:
            raise _failed(f"{uri} was closed")
        message = "The reviewer found nothing." if not count else f"The reviewer found {count} problems."
        self.server.window_show_message(types.ShowMessageParams(type=types.MessageType.Info, message=message))
        return count

    async def _chat(self, *arguments: Any) -> str:
        """Send the agent a message, with files to mention; gives what it answers."""
        given = _given(arguments, tuple[str, ...], f"{CHAT} takes a text, and the URIs of files to mention")
        if not given:
            raise _failed(f"{CHAT} takes a text, and the URIs of files to mention")
        text, *uris = given
        links = [s.ResourceLink(name=os.path.basename(uri), uri=uri) for uri in uris]
        return await self._answered([s.TextContent(text=text), *links], f"Chat with {self._name}")

    async def _asked(self, title: str, words: str, passage: EditorPassage) -> str:
        uri, (first, last) = passage.uri, passage.lines
        document = self.server.workspace.text_documents.get(uri)
        if document is None:
            raise _failed(f"{uri} is not open in the editor")
        quoted = "".join(split_lines(document.source)[first : last + 1])[:MAX_QUOTED]
        problems = "".join(f"\n- {message}" for message in passage.problems)
        text = f"{words}{problems}\n\n{document.path}, lines {first + 1} to {last + 1}:\n\n{quoted}"
        link = s.ResourceLink(name=os.path.basename(document.path), uri=uri)
        return await self._answered([s.TextContent(text=text), link], title)

    async def _answered(self, prompt: Sequence[s.ContentBlock], title: str) -> str:
        cwd = self.server.workspace.root_path or str(Path.cwd())
        try:
            return await self._turns.ask(prompt, title, cwd)
        except RpcError as exc:
            raise _failed(f"{self._name} answered: {exc.message}") from exc
        except Error as exc:
            raise _failed(str(exc)) from exc


def _function(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method as a function, on which pygls can leave its marks."""

    @functools.wraps(method)
    def called(*arguments: Any) -> Any:
        return method(*arguments)

    @functools.wraps(method)
    async def awaited(*arguments: Any) -> Any:
        return await method(*arguments)

    return awaited if asyncio.iscoroutinefunction(method) else called


def _passage(command: str, arguments: Sequence[object]) -> EditorPassage:
    told = f"{command} takes the URI of an open file, its first and last line, and a list of problems"
    return _given(arguments, EditorPassage, told)


def _given(arguments: Sequence[object], kind: type[T], told: str) -> T:
    """The arguments of a command; raises what it takes if they are others."""
    try:
        return msgspec.convert(arguments, kind)
    except msgspec.ValidationError as exc:
        raise _failed(f"{told}: {exc}") from exc


def _failed(why: str) -> JsonRpcException:
    return JsonRpcException(why, REQUEST_FAILED)


async def serve_editor(agent: Launch, preset: Preset, *, reviews: bool = True) -> None:
    """Serve one editor over stdin and stdout until it hangs up; nothing else can write to its stdout."""
    logging.getLogger("pygls").setLevel(logging.WARNING)  # it would log every text and every answer
    stdout: BinaryIO = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    bridge = EditorBridge(agent, preset, reviews=reviews)
    executor = ThreadPoolExecutor(1)
    bridge.server.protocol.set_writer(StdoutWriter(stdout))
    reader: Any = StdinAsyncReader(sys.stdin.buffer, executor)
    try:
        await run_async(stop_event=Event(), reader=reader, protocol=bridge.server.protocol)
    finally:
        await bridge.close()
        executor.shutdown(wait=False, cancel_futures=True)

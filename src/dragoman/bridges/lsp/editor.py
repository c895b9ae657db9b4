"""The editor as an agent's client: its buffers are the files, its user answers the questions."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any

from lsprotocol import types
from pygls.exceptions import JsonRpcException
from pygls.lsp.server import LanguageServer
from pygls.workspace import TextDocument

from ... import schema as s
from ...errors import InvalidRequest
from ...host.files import extensions as x
from ...host.host import Host
from ...host.permissions.engine import Preset
from ...host.permissions.questions import Question
from ...lsp.positions import split_lines
from ...signatures import extension

ANSWER_TIMEOUT = 600.0  # seconds a question waits for an answer
EDIT_TIMEOUT = 60.0  # seconds the editor has to make an edit
DETAIL = 2000  # characters of a change that a question shows
ANNOTATION = "dragoman"

Edits = list[tuple[str, "asyncio.Task[types.ApplyWorkspaceEditResult]"]]
_edits: ContextVar[Edits] = ContextVar("edits")  # of the write that runs


class EditorHost(Host):
    """Lends an agent the editor's files: open ones as they are in its buffers, the others from the disk."""

    def __init__(self, server: LanguageServer, name: str, preset: Preset) -> None:
        super().__init__(
            asker=self._put,
            timeout=ANSWER_TIMEOUT,
            overlay=self._text,
            save=self._edit,
            preset=preset,
            agent_name=name,
        )
        self._server, self._name = server, name

    # Files

    def _document(self, path: str) -> Any:
        found = self._server.workspace.text_documents.values()
        return next((document for document in found if document.path == path), None)

    def _text(self, path: str) -> str | None:
        document = self._document(path)
        return None if document is None else document.source

    def _edit(self, path: str, text: str) -> bool:
        """Give a text to the editor, if it has the file open."""
        document = self._document(path)
        if document is None:
            return False
        workspace = self._server.client_capabilities.workspace
        params = replacing(document, text, f"By {self._name}", workspace.workspace_edit if workspace else None)
        _edits.get().append((path, asyncio.ensure_future(self._server.workspace_apply_edit_async(params))))
        return True

    async def write_text_file(self, params: s.WriteTextFileRequest) -> s.WriteTextFileResponse:
        """Write a file once it was permitted; of an open one the editor has to make the edit."""
        async with self._made():
            return await super().write_text_file(params)

    @extension("_dragoman/fs/write_text_file")
    async def write_file(self, params: x.WriteFileRequest) -> x.WriteFileResponse:
        """The same with the conditions of our own extension."""
        async with self._made():
            return await super().write_file(params)

    @asynccontextmanager
    async def _made(self) -> AsyncIterator[None]:
        """Wait for the edits that a write asks the editor for, and for no others."""
        edits: Edits = []
        _edits.set(edits)
        yield
        for path, edit in edits:
            try:
                async with asyncio.timeout(EDIT_TIMEOUT):
                    answer = await edit
            except TimeoutError:
                raise InvalidRequest(f"the editor did not edit {path} within {EDIT_TIMEOUT:.0f} s") from None
            except JsonRpcException as exc:
                raise InvalidRequest(f"the editor did not edit {path}: {exc.message}") from None
            if not answer.applied:
                why = answer.failure_reason or "it gave no reason"
                raise InvalidRequest(f"the editor did not edit {path}: {why}")

    # Questions

    async def _put(self, question: Question) -> str | None:
        """Put a question to the editor's user; anything but a clear choice allows nothing."""
        parts = [
            f"{self._name}: {question.title}",
            question.text,
            *(f"Warning: {words}" for words in question.warnings),
        ]
        if question.detail:
            cut = len(question.detail) > DETAIL
            parts.append(question.detail[:DETAIL] + ("\n… (more is not shown)" if cut else ""))
        actions = [types.MessageActionItem(title=option.label) for option in question.options]
        params = types.ShowMessageRequestParams(
            type=types.MessageType.Warning, message="\n".join(parts), actions=actions
        )
        answer = await self._server.window_show_message_request_async(params)
        title = getattr(answer, "title", None)
        meant = [option.id for option in question.options if option.label == title]
        return meant[0] if len(meant) == 1 else None


def replacing(
    document: Any, text: str, label: str, support: types.WorkspaceEditClientCapabilities | None
) -> types.ApplyWorkspaceEditParams:
    """The edit that gives a document another text: the lines that differ, annotated where the editor takes that."""
    old, new = split_lines(document.source), split_lines(text)
    first = 0
    while first < min(len(old), len(new)) and old[first] == new[first]:
        first += 1
    last = 0
    while last < min(len(old), len(new)) - first and old[-1 - last] == new[-1 - last]:
        last += 1
    end = len(old) - last
    where = types.Range(types.Position(first, 0), _end(document, old, end))
    new_text = "".join(new[first : len(new) - last])
    if support is None or not support.document_changes:
        edit = types.WorkspaceEdit(changes={document.uri: [types.TextEdit(where, new_text)]})
        return types.ApplyWorkspaceEditParams(label=label, edit=edit)
    identifier = types.OptionalVersionedTextDocumentIdentifier(uri=document.uri, version=document.version)
    if support.change_annotation_support is None:
        change = types.TextDocumentEdit(identifier, [types.TextEdit(where, new_text)])
        edit = types.WorkspaceEdit(document_changes=[change])
    else:
        change = types.TextDocumentEdit(identifier, [types.AnnotatedTextEdit(ANNOTATION, where, new_text)])
        annotations = {ANNOTATION: types.ChangeAnnotation(label=label, needs_confirmation=False)}
        edit = types.WorkspaceEdit(document_changes=[change], change_annotations=annotations)
    return types.ApplyWorkspaceEditParams(label=label, edit=edit)


def _end(document: TextDocument, lines: list[str], end: int) -> types.Position:
    """The place after so many lines; the last of them may have no end."""
    if end == len(lines) and lines and not lines[-1].endswith(("\n", "\r")):
        return types.Position(end - 1, document.position_codec.client_num_units(lines[-1]))
    return types.Position(end, 0)

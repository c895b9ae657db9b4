"""Our extension methods on files: requests and responses.

    _dragoman/fs/read_text_file     ReadFileRequest        -> ReadFileResponse
    _dragoman/fs/write_text_file    WriteFileRequest       -> WriteFileResponse
    _dragoman/fs/read_binary_file   ReadBinaryRequest      -> ReadBinaryResponse
    _dragoman/fs/write_binary_file  WriteBinaryRequest     -> WriteFileResponse
    _dragoman/fs/list_directory     ListDirectoryRequest   -> ListDirectoryResponse
    _dragoman/fs/create_directory   CreateDirectoryRequest -> CreateDirectoryResponse
    _dragoman/fs/apply_edits        ApplyEditsRequest      -> ApplyEditsResponse
    _dragoman/fs/watch              WatchRequest           -> WatchResponse
    _dragoman/fs/unwatch            UnwatchRequest         -> UnwatchResponse
    _dragoman/fs/changed            WatchNews                 from host to agent: the changes

Paths are absolute.  `expectedSha256` is the SHA-256 of the file's bytes in hexadecimal digits: if the file has
changed, nothing is written and the error's `data.kind` is "changed".
"""

from collections.abc import Sequence
from typing import ClassVar, Literal

from ...schema.base import Exact, Model, UInt64
from ...schema.protocol import SessionId

ChangeKind = Literal["created", "modified", "deleted"]
EntryKind = Literal["file", "directory", "symlink", "other"]


class ReadFileRequest(Model, kw_only=True):
    """Lines `start_line` to `end_line`, counted from 1, both included; by default all lines."""

    session_id: SessionId
    path: str
    encoding: Exact[str | None] = None
    start_line: Exact[UInt64 | None] = None
    end_line: Exact[UInt64 | None] = None


class ReadFileResponse(Model, kw_only=True):
    """`truncated` if one answer could not hold all; `total_lines` counts the lines of the whole file."""

    content: str
    encoding: str
    total_lines: int
    truncated: bool


class WriteFileRequest(Model, kw_only=True):
    is_verbatim: ClassVar[bool] = True

    session_id: SessionId
    path: str
    content: str
    encoding: Exact[str | None] = None
    overwrite: Exact[bool] = True
    create_directories: Exact[bool] = True
    expected_sha256: Exact[str | None] = None


class WriteFileResponse(Model, kw_only=True):
    bytes_written: int
    created: bool


class ReadBinaryRequest(Model, kw_only=True):
    """At most `length` bytes from `offset` on."""

    session_id: SessionId
    path: str
    offset: Exact[UInt64] = 0
    length: Exact[UInt64 | None] = None


class ReadBinaryResponse(Model, kw_only=True):
    """`data` is base64 on the wire; `size` is the size of the whole file."""

    data: bytes
    size: int


class WriteBinaryRequest(Model, kw_only=True):
    session_id: SessionId
    path: str
    data: bytes
    overwrite: Exact[bool] = True
    create_directories: Exact[bool] = True
    expected_sha256: Exact[str | None] = None


class ListDirectoryRequest(Model, kw_only=True):
    session_id: SessionId
    path: str
    limit: Exact[UInt64 | None] = None


class DirectoryEntry(Model, kw_only=True):
    name: str
    type: EntryKind
    size: int | None = None  # of a file


class ListDirectoryResponse(Model, kw_only=True):
    """Entries by name; `truncated` if entries beyond the limit, or with names that are not UTF-8, are left out."""

    entries: Sequence[DirectoryEntry]
    truncated: bool


class CreateDirectoryRequest(Model, kw_only=True):
    """Creates a directory and those above it."""

    session_id: SessionId
    path: str


class CreateDirectoryResponse(Model, kw_only=True):
    created: bool  # false: it existed


class Replacement(Model, kw_only=True):
    """A replacement; `old_text` must occur in the file exactly once."""

    old_text: str
    new_text: str


class WriteEdit(Model, tag_field="type", tag="write", kw_only=True):
    """Write a file with this content, whether it exists or not."""

    path: str
    content: str
    encoding: Exact[str | None] = None
    overwrite: Exact[bool] = True
    expected_sha256: Exact[str | None] = None


class ReplaceEdit(Model, tag_field="type", tag="replace", kw_only=True):
    """Replace parts of a file, one after the other."""

    path: str
    replacements: Sequence[Replacement]
    encoding: Exact[str | None] = None
    expected_sha256: Exact[str | None] = None


class DeleteEdit(Model, tag_field="type", tag="delete", kw_only=True):
    path: str
    expected_sha256: Exact[str | None] = None


FileEdit = WriteEdit | ReplaceEdit | DeleteEdit


class ApplyEditsRequest(Model, kw_only=True):
    """Changes several files: all of them or none."""

    is_verbatim: ClassVar[bool] = True

    session_id: SessionId
    edits: Sequence[FileEdit]


class EditedFile(Model, kw_only=True):
    path: str
    bytes_written: int = 0
    created: bool = False
    deleted: bool = False


class ApplyEditsResponse(Model, kw_only=True):
    files: Sequence[EditedFile]


class WatchRequest(Model, kw_only=True):
    """Watches a directory, and if `recursive` everything below it."""

    session_id: SessionId
    path: str
    recursive: Exact[bool] = True


class FileChange(Model, kw_only=True):
    path: str
    type: ChangeKind


class FilesChanged(Model, kw_only=True):
    """The changes; with `overflow`, some are missing, and the agent has to look for itself."""

    changes: Sequence[FileChange]
    overflow: bool = False


class WatchResponse(Model, kw_only=True):
    watch_id: str


class UnwatchRequest(Model, kw_only=True):
    session_id: SessionId
    watch_id: str


class UnwatchResponse(Model, kw_only=True):
    ended: bool  # false: there was no such watch


class WatchNews(Model, kw_only=True):
    """`ended` if the directory is gone; it is the last message."""

    session_id: SessionId
    watch_id: str
    changes: Sequence[FileChange]
    overflow: bool = False
    ended: bool = False

"""The errors about files that agents get: three codes, and `data.kind` for programs.

    -32602 InvalidParams     ask for something else: bad_path, relative_path, outside_workspace, too_many_links,
                             not_a_file, not_a_directory, too_large, binary, encoding, read_only, access_denied,
                             exists, changed, bad_digest, unsaved, conflict, no_match
    -32002 ResourceNotFound  there is no such file
    -32603 InternalError     the machine failed: no_space, busy, io_error, no_journal

`data.uri` is the path as the agent named it.  An error reveals nothing else of this machine, not even whether a
file outside the workspace exists.
"""

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from ...errors import InternalError, InvalidParams, ResourceNotFound, RpcError

_WORDS = {
    "bad_path": "this cannot be a path: it is empty, too long, holds a NUL or is no UTF-8",
    "relative_path": "the path is relative; name it from the root of the file system on",
    "outside_workspace": "the path leads outside the workspace; name one inside the session's directories",
    "too_many_links": "the path goes through too many symbolic links",
    "not_a_file": "this is no regular file",
    "not_a_directory": "this is no directory",
    "too_large": "this is too large for one answer; ask for a part of it",
    "binary": "this is a binary file, not text",
    "encoding": "this text does not fit the encoding; name the one it has",
    "read_only": "this may be read but not written",
    "access_denied": "the user may not do this to this file",
    "exists": "there is a file of that name already",
    "changed": "the file has changed meanwhile; read it again and try again",
    "bad_digest": "expectedSha256 is no SHA-256; give 64 hexadecimal digits, or leave it out",
    "unsaved": "the file has unsaved changes in the editor; write it by itself",
    "conflict": "one file is named twice",
    "no_match": "the text to replace is not there exactly once",
}
_FAILURES = {
    "no_space": "there is no space left for this file; nothing was changed",
    "busy": "another program holds the file; try again",
    "io_error": "the file system failed; nothing was changed",
    "no_journal": "several files cannot be changed at once, for there is no directory to keep the journal in",
}
_KINDS = {
    errno.ELOOP: "too_many_links",
    errno.ENAMETOOLONG: "bad_path",
    errno.EILSEQ: "bad_path",
    errno.ENOTDIR: "not_a_directory",
    errno.EISDIR: "not_a_file",
    errno.ENXIO: "not_a_file",
    errno.ENODEV: "not_a_file",
    errno.EACCES: "access_denied",
    errno.EPERM: "access_denied",
    errno.EROFS: "read_only",
    errno.EEXIST: "exists",
    errno.ENOTEMPTY: "exists",
    errno.ENOSPC: "no_space",
    errno.EDQUOT: "no_space",
    errno.EFBIG: "no_space",
    errno.EAGAIN: "busy",
    errno.EBUSY: "busy",
    errno.ETXTBSY: "busy",
}


class FileRefused(Exception):
    """An error of one of these kinds, raised where the path that the agent named is not known."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        super().__init__(kind)


def refusal(kind: str, path: str) -> RpcError:
    """The error of a kind, for the path an agent named."""
    data = {"uri": path, "kind": kind}
    if kind in _FAILURES:
        return InternalError(_FAILURES[kind], data)
    return InvalidParams(_WORDS[kind], data)


@contextmanager
def answering(path: str) -> Iterator[None]:
    """Turn internal errors into the agent's answer."""
    try:
        yield
    except FileRefused as exc:
        raise refusal(exc.kind, path) from exc
    except FileNotFoundError as exc:
        raise ResourceNotFound("there is no such file", {"uri": path}) from exc
    except OSError as exc:
        raise refusal(_KINDS.get(exc.errno or 0, "io_error"), path) from exc

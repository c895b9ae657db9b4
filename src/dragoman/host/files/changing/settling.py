"""Finishes or undoes an interrupted change of files: in this process, or after a crash in the next one.

It inspects all files first and makes one decision for all: if every file was exchanged, the change is finished;
otherwise it is taken back.  Names are restored first and leftovers removed later, so that settling can itself be
interrupted and repeated.  A file that somebody has saved in the meantime is newer than both versions, and stays.

A file under a further name is removed only if it is ours (the untouched new content) or fulfils the condition of
the change (the user saw it and agreed).  Any other file is one of the user's that a killed process was about to put
back: it gets its name again, or is kept next to the file that has it.
"""

import logging
from collections.abc import Callable
from typing import Literal

from msgspec import Struct

from ..errors import FileRefused
from ..paths import status_at
from ..reading import opened
from .condition import Condition
from .exchanging import can_link, give_back, is_same, keep_beside, put, remove, sync_directory, take
from .locations import Directories
from .new_directories import remove_directories
from .records import FileContent, FileNames, Progress

log = logging.getLogger("dragoman")


class _Found(Struct, frozen=True):
    """The progress of one file."""

    state: Literal["untouched", "between", "applied"]  # between: the name is free
    old: str | None = None  # the further name of the old file
    fulfils: bool = True  # whether the old file fulfils the condition


_Step = Callable[[int], None]


def settle(progress: Progress, directories: Directories, *, has_failed: bool = False) -> bool:
    """Finish a change, or take it back (always if it `has_failed`); true if it is finished.

    Raises OSError if a file cannot be reached; the steps until then can be repeated.
    """
    steps: list[tuple[FileNames, _Step]] = []
    is_finished = progress.done
    if progress.contents is not None:
        files = list(zip(progress.files, progress.contents, strict=True))
        if not progress.done:
            found = [_look(names, content, directories) for names, content in files]
            is_finished = not has_failed and all(file.state == "applied" and file.fulfils for file in found)
            if not is_finished:
                steps += (
                    (names, _taking_back(names, content, file))
                    for (names, content), file in reversed(list(zip(files, found, strict=True)))
                )
        steps += ((names, _clearing(names, content)) for names, content in files)
    else:
        steps += ((names, _removing(names.new)) for names in progress.files)
    _take(steps, directories)
    if not is_finished:
        _remove_made(progress, directories)
    return is_finished


def _take(steps: list[tuple[FileNames, _Step]], directories: Directories) -> None:
    """Take every step even if one fails; then raise."""
    failure: OSError | None = None
    for names, step in steps:
        try:
            with directories.innermost(names.location) as fd:
                if fd is not None:
                    step(fd)
                    sync_directory(fd)
        except OSError as exc:
            failure = failure or exc
    if failure:
        raise failure


def _look(names: FileNames, content: FileContent, directories: Directories) -> _Found:
    with directories.innermost(names.location) as fd:
        return _Found("untouched") if fd is None else _state(fd, names, content)


def _state(fd: int, names: FileNames, content: FileContent) -> _Found:
    for further in (names.new, names.aside):
        if is_same(fd, further, names.location.name):  # a file renamed by a hard link still has both names
            remove(fd, further)
    is_new_there = content.digest is not None and _fulfils(fd, names.new, content.ours)
    if is_new_there and _fulfils(fd, names.location.name, content.ours) and not can_link(fd, names.new):
        remove(fd, names.new)  # the process was killed after it had filled the file (`filling`)
        is_new_there = False
    if status_at(fd, names.aside) is not None:
        old = names.aside
    elif not is_new_there and status_at(fd, names.new) is not None:  # exchanged
        old = names.new
    elif is_new_there or (content.digest is None and status_at(fd, names.location.name) is not None):
        return _Found("untouched")
    else:
        return _Found("applied")
    return _Found("between" if is_new_there else "applied", old, _fulfils(fd, old, content.condition))


def _fulfils(fd: int, name: str, condition: Condition) -> bool:
    """Whether a file exists and fulfils a condition."""
    try:
        with opened(name, fd) as file:
            condition.check(file)
    except (FileNotFoundError, FileRefused):
        return False
    return True


def _taking_back(names: FileNames, content: FileContent, found: _Found) -> _Step:
    name = names.location.name

    def take_back(fd: int) -> None:
        if found.state == "untouched":
            return
        if found.old and (found.state == "between" or content.digest is None):
            give_back(fd, found.old, name)
            return
        try:
            if found.old:
                put(fd, found.old, names.aside if found.old == names.new else names.new, name, content.ours)
            elif content.digest is not None:
                take(fd, names.new, name, content.ours)
        except (FileRefused, FileNotFoundError):
            log.warning("%s was changed by somebody else and is left as it is", name)

    return take_back


def _clearing(names: FileNames, content: FileContent) -> _Step:
    def clear(fd: int) -> None:
        for left in (names.new, names.aside):
            if status_at(fd, left) is None:
                continue
            is_ours = content.digest is not None and _fulfils(fd, left, content.ours)
            if is_ours or _fulfils(fd, left, content.condition):
                remove(fd, left)
            else:
                keep_beside(fd, left, names.location.name)

    return clear


def _removing(name: str) -> _Step:
    return lambda fd: remove(fd, name)


def _remove_made(progress: Progress, directories: Directories) -> None:
    for index, names in reversed(list(enumerate(progress.files))):
        if not names.location.missing:
            continue
        with directories.outermost(names.location) as top:
            remove_directories(top, names.location.missing, names.new, progress.made.get(index, {}))
            sync_directory(top)

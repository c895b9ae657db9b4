"""Records the calls by which a program changes files, with their bytes, and what it says meanwhile."""

import asyncio
import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from patience import PATIENCE
from torture.workers import with_tests

CHANGING = (
    "openat,open,creat,write,pwrite64,ftruncate,truncate,fsync,fdatasync,sync,lseek,"
    "rename,renameat,renameat2,link,linkat,unlink,unlinkat,mkdir,mkdirat,rmdir"
)
# What else can change a file; a program that uses one of these on a file here is not understood.
OTHER = "writev,pwritev,pwritev2,sendfile,copy_file_range,fallocate,symlink,symlinkat,splice"
LOOKING = "fstat,newfstatat,statx"  # which tell when a file was written, and programs remember it
_CALL = re.compile(r"(\d+) +(\w+)\((.*)\) += (-?\d+)(.*)")
_BEGUN = re.compile(r"(\d+) +(\w+)\((.*) <unfinished \.\.\.>")
_ENDED = re.compile(r"(\d+) +<\.\.\. (\w+) resumed>(.*)\) += (-?\d+)(.*)")
_ARGUMENT = re.compile(r'(-?\w+)<([^>]*)>(?:\(deleted\))?|"([^"]*)"|([^,"{}\s][^,"{}]*)')


class Call(NamedTuple):
    """A call that succeeded: the paths it names in full, texts, and what else it was given, in order."""

    name: str
    fd: int  # that it was given, or gave
    paths: tuple[str, ...]
    data: bytes
    rest: str  # flags and numbers, as strace prints them
    result: int


Said = dict[str, Any]  # a line of the program's report


async def recorded(program: list[str], root: Path, directory: Path) -> list[Call | Said]:
    """Run a Python program, which is given `root` and a report to write to as further arguments."""
    log, report = directory / "calls", directory / "report"
    report.touch()
    tracing = ("-f", "-qq", "-y", "-xx", "-v", "-s", "1000000", "--seccomp-bpf")
    process = await asyncio.create_subprocess_exec(
        *("strace", *tracing, "-o", log, "-e", f"trace={CHANGING},{OTHER},{LOOKING}"),
        *(sys.executable, "-B", *program, str(root), str(report)),
        env=with_tests(),
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(PATIENCE):
        _, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
    return list(_understood(log.read_text(), str(root), str(report)))


def _understood(log: str, root: str, report: str) -> Iterator[Call | Said]:
    """A call counts from when it has returned; what goes on at the same time is not yet done."""
    begun: dict[str, tuple[str, str]] = {}
    for line in log.splitlines():
        if match := _BEGUN.match(line):
            begun[match[1]] = (match[2], match[3])
            continue
        if match := _ENDED.match(line):
            name, arguments = begun.pop(match[1])
            assert name == match[2]
            arguments += match[3]
        elif match := _CALL.match(line):
            name, arguments = match[2], match[3]
        else:
            continue
        if int(match[4]) < 0:
            continue
        call = _call(name, arguments, int(match[4]), match[5])
        if report in call.paths and name == "write":
            yield from (json.loads(said) for said in call.data.splitlines())
        elif any(path == root or path.startswith(f"{root}/") for path in call.paths):
            assert name not in OTHER.split(","), f"{name} is not understood: {line[:200]}"
            yield call


def _call(name: str, arguments: str, result: int, told: str) -> Call:
    at, fd, paths, texts, rest = os.getcwd(), result, list[str](), list[bytes](), list[str]()
    named = name not in ("write", "pwrite64")
    first = True
    for number, place, text, other in _ARGUMENT.findall(arguments):
        if place:
            at = _bytes(place).decode(errors="surrogateescape")
            if number.isdigit():
                fd = int(number) if first else fd
            first = False
        elif other:
            rest.append(other)
        elif named:
            path = _bytes(text).decode(errors="surrogateescape")
            paths.append(os.path.normpath(os.path.join(at, path)))
        else:
            texts.append(_bytes(text))
    if name in ("openat", "open", "creat"):
        fd = result
    return Call(name, fd, tuple(paths) or (at,), b"".join(texts), ", ".join(rest), result)


def _bytes(text: str) -> bytes:
    return bytes.fromhex(text.replace("\\x", ""))

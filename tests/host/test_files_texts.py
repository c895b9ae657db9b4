"""Text is read and written without changing a byte, a window at a time, in bounded memory."""

import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dragoman.errors import InvalidParams, RpcError
from dragoman.host.files import Workspace
from dragoman.host.files.texts import MAX_TEXT

MiB = 1024 * 1024


@pytest.fixture
def ws(tmp_path: Path) -> Path:
    (tmp_path / "ws").mkdir()
    return tmp_path / "ws"


@pytest.fixture
def workspace(ws: Path):
    with Workspace(ws, state=ws.parent / "state") as workspace:
        yield workspace


def read(workspace: Workspace, path: Path, *window: int | None, **options: str) -> str:
    with workspace.reading(str(path)) as file:
        return file.read(*window, **options)


def write(workspace: Workspace, path: Path, text: str, **options: str) -> None:
    with workspace.writing(str(path)) as target:
        target.commit(text, **options)


def refused(workspace: Workspace, path: Path, *window: int | None, **options: str) -> str:
    with pytest.raises(RpcError) as caught:
        read(workspace, path, *window, **options)
    return caught.value.data["kind"]


# Texts with all that editors and systems quarrel about; a NUL makes a file binary, see below.
PIECES = [
    "\r\n",
    "\r",
    "\n",
    "\ufeff",
    "🎉",
    "e\u0301",
    "\u2028",
    "\u0085",
    "\x0b",
    "\x0c",
    "\x1b[0m",
    "\t",
    "x" * 500,
]
TEXTS = st.lists(
    st.sampled_from(PIECES) | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
)
SETTINGS = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@SETTINGS
@given(TEXTS.map("".join))
def test_a_text_comes_back_byte_for_byte(workspace: Workspace, ws: Path, text: str) -> None:
    path = ws / "there and back"
    write(workspace, path, text)
    assert path.read_bytes() == text.encode()
    assert read(workspace, path) == text


@SETTINGS
@given(TEXTS.map("".join), st.integers(0, 12), st.integers(0, 12))
def test_a_window_is_the_lines_it_names(workspace: Workspace, ws: Path, text: str, line: int, limit: int) -> None:
    path = ws / "windows"
    path.write_bytes(text.encode())
    lines = text.split("\n")
    lines = [part + "\n" for part in lines[:-1]] + ([lines[-1]] if lines[-1] else [])
    start = max(line - 1, 0)  # 0 is taken for 1
    assert read(workspace, path, line, limit) == "".join(lines[start : start + limit])
    assert read(workspace, path, line) == "".join(lines[start:])
    assert read(workspace, path, None, limit) == "".join(lines[:limit])
    with workspace.reading(str(path)) as file:
        window = file.window(line, line + limit)
    assert (window.content, window.total_lines) == ("".join(lines[start : line + limit]), len(lines))
    assert not window.truncated


def test_windows_across_chunks_are_whole(workspace: Workspace, ws: Path) -> None:
    lines = [f"line {number} 🎉{'x' * (number % 700)}\r\n" for number in range(1, 3000)]
    (ws / "f").write_bytes("".join(lines).encode())
    for line, limit in ((1, 1), (700, 3), (1500, 1400), (2990, 100), (5000, 5)):
        assert read(workspace, ws / "f", line, limit) == "".join(lines[line - 1 : line - 1 + limit])


@pytest.mark.parametrize("data", [b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", b"text\0more", b"\0", b"\xff\xfe\0\0" * 10])
def test_a_binary_file_is_no_text(workspace: Workspace, ws: Path, data: bytes) -> None:
    (ws / "f").write_bytes(data)
    assert refused(workspace, ws / "f") == "binary"


@pytest.mark.parametrize(
    "data", [b"caf\xe9\n", b"\xff\xfe", b"cut \xf0\x9f\x8e", b"\xc0\xaf", b"\xed\xa0\x80", b"x" * 300000 + b"\xe9"]
)
def test_another_encoding_gives_an_error_and_not_mojibake(workspace: Workspace, ws: Path, data: bytes) -> None:
    (ws / "f").write_bytes(data)
    assert refused(workspace, ws / "f") == "encoding"


ENCODED = {
    "latin-1": (b"caf\xe9\n", "café\n", "iso8859-1"),
    "windows-1252": (b"\x93caf\xe9\x94", "“café”", "cp1252"),
    "Shift_JIS": (b"\x93\xfa\x96{\r\n", "日本\r\n", "shift_jis"),
    "gbk": (b"\xc4\xe3\xba\xc3", "你好", "gbk"),
    "utf-16-le": ("a\n日".encode("utf-16-le"), "a\n日", "utf-16-le"),
    "UTF-16": (b"\xfe\xff\0a\0\n", "\ufeffa\n", "utf-16-be"),
    "utf-32": (b"\xff\xfe\0\0a\0\0\0", "\ufeffa", "utf-32-le"),
    "utf-8": (b"\xef\xbb\xbfa", "\ufeffa", "utf-8"),
}


@pytest.mark.parametrize("encoding", ENCODED)
def test_an_encoding_that_is_named_is_used_both_ways(workspace: Workspace, ws: Path, encoding: str) -> None:
    data, text, really = ENCODED[encoding]
    (ws / "f").write_bytes(data)
    with workspace.reading(str(ws / "f")) as file:
        window = file.window(encoding=encoding)
    assert (window.content, window.encoding) == (text, really)
    write(workspace, ws / "g", text, encoding=really)
    assert (ws / "g").read_bytes() == data


@pytest.mark.parametrize(
    "name", ["rot13", "base64", "unicode_escape", "idna", "no-such", "../utf8", "", "x" * 100, "utf-7"]
)
def test_what_is_no_encoding_of_text_is_refused(workspace: Workspace, ws: Path, name: str) -> None:
    (ws / "f").write_text("a")
    assert refused(workspace, ws / "f", encoding=name) == "encoding"
    with pytest.raises(InvalidParams):
        write(workspace, ws / "f", "b", encoding=name)
    assert (ws / "f").read_text() == "a"


def test_a_text_that_does_not_fit_the_encoding_is_not_written(workspace: Workspace, ws: Path) -> None:
    for text, encoding in (("日本", "latin-1"), ("\ud800", "utf-8")):
        with pytest.raises(InvalidParams) as caught:
            write(workspace, ws / "f", text, encoding=encoding)
        assert caught.value.data["kind"] == "encoding"
    assert not (ws / "f").exists()


def test_a_file_too_large_for_one_answer_is_read_in_parts(workspace: Workspace, ws: Path) -> None:
    line = "0123456789abcde\n"
    (ws / "f").write_text(line * (MAX_TEXT // 16 + 1))
    assert refused(workspace, ws / "f") == "too_large"
    assert refused(workspace, ws / "f", 1) == "too_large"
    assert refused(workspace, ws / "f", 1, 10**9) == "too_large"
    assert read(workspace, ws / "f", 2) == line * (MAX_TEXT // 16)
    assert read(workspace, ws / "f", MAX_TEXT // 16, 5) == line * 2
    with workspace.reading(str(ws / "f")) as file:
        window = file.window()
    assert window.truncated
    assert (len(window.content), window.total_lines) == (MAX_TEXT, MAX_TEXT // 16 + 1)


def test_a_cut_never_goes_through_a_character(workspace: Workspace, ws: Path) -> None:
    (ws / "f").write_text("x" + "🎉" * (MAX_TEXT // 4))
    with workspace.reading(str(ws / "f")) as file:
        window = file.window()
    assert window.truncated
    assert window.content == "x" + "🎉" * (MAX_TEXT // 4 - 1)


HUGE = """
import resource, sys
from dragoman.errors import RpcError
from dragoman.host.files import Workspace
path, state, line = sys.argv[1:]
with Workspace(path.rpartition("/")[0], state=state) as workspace:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with workspace.reading(path) as file:
        try:
            found = file.read(int(line), 1)
        except RpcError as error:
            found = error.data["kind"]
    print(found.strip(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def read_huge(path: Path, line: int) -> tuple[str, int, float]:
    """What a process of its own reads, by how many KiB it grew meanwhile, and in how many seconds."""
    started = time.monotonic()
    argv = [sys.executable, "-c", HUGE, str(path), str(path.parents[1] / "state"), str(line)]
    found, growth = subprocess.run(argv, check=True, capture_output=True, text=True).stdout.split()
    return found, int(growth), time.monotonic() - started


def test_a_sparse_file_of_20_gib_takes_neither_memory_nor_time(ws: Path) -> None:
    with open(ws / "sparse", "wb") as file:
        os.truncate(file.fileno(), 20 * 1024 * MiB)
    found, growth, seconds = read_huge(ws / "sparse", 10**9)
    assert found == "binary"
    assert growth < 32 * 1024
    assert seconds < 10


def test_a_line_far_into_a_large_file_is_found_in_little_memory(ws: Path) -> None:
    with open(ws / "large", "w") as file:
        for _ in range(64):
            file.write("0123456789abcdé\n" * (MiB // 16))
        file.write("found\n")
    found, growth, _ = read_huge(ws / "large", 64 * MiB // 16 + 1)
    assert found == "found"
    assert growth < 32 * 1024


def test_a_line_without_end_is_refused(workspace: Workspace, ws: Path) -> None:
    (ws / "f").write_text("x" * (MAX_TEXT + 1))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert refused(workspace, ws / "f", 1, 1) == "too_large"
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 * 1024


def test_a_file_that_grows_faster_than_it_is_read_comes_to_an_end(workspace: Workspace, ws: Path) -> None:
    """What is added while it is read is not waited for."""
    (ws / "f").write_text("x\n")
    with workspace.reading(str(ws / "f")) as file, open(ws / "f", "a", buffering=1) as growing:
        pread = os.pread

        def grow(*arguments: int) -> bytes:
            growing.write("x\n" * 1000)
            return pread(*arguments)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "pread", grow)
            assert file.window().total_lines == 1
            assert len(file.digest()) == 64


def test_an_empty_file_is_text_in_any_encoding(workspace: Workspace, ws: Path) -> None:
    (ws / "f").touch()
    for encoding in ("utf-8", "utf-16", "utf-32", "latin-1"):
        assert read(workspace, ws / "f", encoding=encoding) == ""


def test_bytes_are_read_as_they_are_and_in_parts(workspace: Workspace, ws: Path) -> None:
    data = bytes(range(256)) * 1000
    (ws / "f").write_bytes(data)
    with workspace.reading(str(ws / "f")) as file:
        assert file.size == len(data)
        assert file.read_bytes() == data
        assert file.read_bytes(100, 50) == data[100:150]
        assert file.read_bytes(len(data) - 5, 100) == data[-5:]
        assert file.read_bytes(10**12) == b""
        with pytest.raises(InvalidParams) as caught:
            file.read_bytes(0, 11 * MiB)
        assert caught.value.data["kind"] == "too_large"

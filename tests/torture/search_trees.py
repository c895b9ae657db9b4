"""Random trees and expressions: a search finds what a naive one finds, and what Git lists."""

import contextlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from dragoman.coder.search.messages import FileMatches, SearchCounts, SearchRequest
from dragoman.coder.search.process import found
from dragoman.host.trees.walking import files

MEMORY = "/dev/shm" if os.path.isdir("/dev/shm") else None  # it need not be a disk

# Letters that case, encodings and line ends make something special of.
WORDS = ["needle", "kiss", "KISS", "\u212ai\u017fs", "\u0130", "a", "b", "ab", "é", "1", " ", "\t", ".", "x" * 500]
ENDS = ["\n", "\r\n", "\n\n", "\x0c", "\u2028", "\r", "\x1c"]
LITERALS = ["needle", "kiss", "a", "b", "ab", "K", "i", "é", "1", " ", r"\.", "\u017f", "x+"]
ATOMS = [*LITERALS, ".", r"\w", r"\d", r"\s", "[a-k]", "[^a]", "^", "$", r"\b", "", r"\r", r"\x0c"]


def expressions() -> st.SearchStrategy[str]:
    def grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        wrapped = st.sampled_from(["({})", "(?:{})", "(?i:{})", "(?={})", "(?!{})", "(?>{})", "(?:{}){{1,3}}"])
        return st.one_of(
            st.lists(inner, min_size=2, max_size=3).map("".join),
            st.lists(inner, min_size=2, max_size=3).map("|".join),
            st.tuples(wrapped, inner).map(lambda pair: pair[0].format(pair[1])),
            inner.map(lambda each: f"(?:{each})?"),
            inner.map(lambda each: f"(?:{each})++"),
        )

    return st.recursive(st.sampled_from(ATOMS), grown, max_leaves=6)


def texts() -> st.SearchStrategy[str]:
    return st.lists(st.one_of(st.sampled_from(WORDS), st.sampled_from(ENDS)), max_size=30).map("".join)


def _settings(count: int) -> settings:
    """The same few cases in every run of the suite, others in each run of the torture."""
    is_few = count < 1000
    checks = list(HealthCheck)
    return settings(
        max_examples=count, deadline=None, suppress_health_check=checks, database=None, derandomize=is_few
    )


def compare_with_naive_search(count: int) -> None:
    """Search random files for random expressions, and so does a loop over their lines."""

    @_settings(count)
    @given(
        st.lists(st.tuples(texts(), st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "latin-1"])), max_size=4),
        expressions(),
        st.booleans(),
    )
    def compare(written: list[tuple[str, str]], pattern: str, ignore_case: bool) -> None:
        try:
            compiled = re.compile(pattern, re.IGNORECASE if ignore_case else 0)
        except re.error:
            assume(False)
        assume(pattern != "")
        with _directory() as root:
            expected: dict[str, list[int]] = {}
            for number, (text, encoding) in enumerate(written):
                data = text.encode(encoding, "replace")
                (root / str(number)).write_bytes(data)
                if lines := _naive_lines(data, encoding, compiled):
                    expected[str(number)] = lines
            *hits, looked = found(SearchRequest(str(root), str(root), "", pattern, ignore_case))
            assert isinstance(looked, SearchCounts) and looked.done and looked.files == len(written)
            assert {
                Path(h.path).name: [n for n, _ in h.lines] for h in hits if isinstance(h, FileMatches)
            } == expected

    compare()


def _naive_lines(data: bytes, encoding: str, pattern: re.Pattern[str]) -> list[int]:
    if encoding == "latin-1":
        lines = [_utf8_or_latin(line) for line in data.split(b"\n")]
    else:
        lines = data.decode(encoding).split("\n")
    lines = lines if lines[-1] else lines[:-1]
    return [
        number
        for number, line in enumerate(lines, 1)
        if pattern.search(line.removesuffix("\r")) or pattern.search(line)
    ]


def _utf8_or_latin(line: bytes) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError:
        return line.decode("latin-1")


NAMES = ["a", "b", "ab", "a.py", "b.py", ".c", "d[1]", "e f", "#g", "!h", "Ä"]
PIECES = [
    *NAMES,
    "*",
    "**",
    "?",
    "*.py",
    "a*",
    "[a-b]",
    "[!a]",
    "[[:alpha:]]",
    "[]a]",
    r"\#g",
    r"\!h",
    r"\*",
    "[",
    "a**b",
]


def ignore_lines() -> st.SearchStrategy[str]:
    part = st.lists(st.sampled_from(PIECES), min_size=1, max_size=2).map("".join)
    path = st.lists(st.one_of(st.sampled_from(PIECES), part), min_size=1, max_size=3).map("/".join)
    return st.tuples(
        st.sampled_from(["", "", "", "!", "#", "/", "!/"]), path, st.sampled_from(["", "", "/", " ", "\\ ", "\r"])
    ).map("".join)


def compare_with_git(count: int) -> None:
    """List random trees with random .gitignore files, as Git does; a part is also listed from below."""
    with _directory() as empty:
        _git(empty, "init", "-q")
        shutil.rmtree(empty / ".git" / "hooks", ignore_errors=True)

        @_settings(count)
        @given(
            st.sets(
                st.lists(st.sampled_from(NAMES), min_size=1, max_size=3).map("/".join), min_size=3, max_size=12
            ),
            st.dictionaries(
                st.sampled_from(["", *NAMES]), st.lists(ignore_lines(), min_size=1, max_size=5), max_size=3
            ),
            st.lists(ignore_lines(), max_size=2),
        )
        def compare(paths: set[str], ignored: dict[str, list[str]], excluded: list[str]) -> None:
            with _directory() as root:
                shutil.copytree(empty / ".git", root / ".git")
                (root / ".git" / "info" / "exclude").write_text("\n".join(excluded))
                for path in sorted(paths, key=len, reverse=True):
                    _make(root / path)
                for directory, lines in ignored.items():
                    if (root / directory).is_dir():
                        (root / directory / ".gitignore").write_text("\n".join(lines))
                listed = _git(root, "ls-files", "-o", "--exclude-standard", "-z").split("\0")
                expected = {name for name in listed if name}
                ours = {os.path.relpath(path, root) for path in files(str(root), str(root), SearchCounts())}
                assert ours == expected, (ignored, excluded)
                for below in [each for each in NAMES if (root / each).is_dir()]:
                    inside = {
                        os.path.relpath(each, root) for each in files(str(root / below), str(root), SearchCounts())
                    }
                    assert inside >= {name for name in expected if name.startswith(f"{below}/")}

        compare()


def _make(path: Path) -> None:
    if path.exists() or any(parent.is_file() for parent in path.parents):
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("x")


def _git(root: Path, *words: str) -> str:
    plain: dict[str, Any] = {"HOME": str(root), "GIT_CONFIG_NOSYSTEM": "1", "PATH": os.environ["PATH"]}
    done = subprocess.run(["git", "-C", str(root), *words], check=True, capture_output=True, text=True, env=plain)
    return done.stdout


@contextlib.contextmanager
def _directory() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=MEMORY) as directory:
        yield Path(os.path.realpath(directory))

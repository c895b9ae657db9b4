"""Searching: what is there is found, and what was not looked at is told."""

import asyncio
import os
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from torture.search_trees import compare_with_git, compare_with_naive_search

from dragoman.coder import call
from dragoman.coder.search.lines import MAX_FILE, Matcher
from dragoman.coder.search.literals import finder
from dragoman.coder.search.messages import FileMatches, SearchCounts, SearchRequest
from dragoman.coder.search.process import found

from .desk import desk, results

pytestmark = pytest.mark.usefixtures("nothing_left")


async def told(cwd: Path, *steps: Any, **settings: Any) -> list[str]:
    """What the model is told of calls made one after the other."""
    async with desk(cwd, *steps, "Done.", **settings) as (session, _, model):
        await session.prompt("Go")
        return [words for _, _, words in results(model)]


def search(pattern: str = "needle", **arguments: Any) -> Any:
    return call("search", pattern=pattern, **arguments)


def written(root: Path, **contents: str | bytes) -> Path:
    """Files under names in which __ is a slash and _ a dot."""
    for name, text in contents.items():
        path = root / name.replace("__", "/").replace("_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return root


# What is there is found


def far_to_the_right(root: Path) -> str:
    written(root, a_js="x" * 1000 + "needle" + "y" * 1000)
    return r"a\.js:1: …x{100}needley{294}…"


def far_below(root: Path) -> str:
    written(root, a_log="a line\n" * 500_000 + "needle\n")
    return r"a\.log:500001: needle"


def in_a_file_without_end(root: Path) -> str:
    written(root, a="one\ntwo needle")
    return "a:2: two needle"


def behind_a_carriage_return(root: Path) -> str:
    written(root, a=b"needle\r\n")
    return "a:1: needle"


def in_utf_16(root: Path) -> str:
    written(root, a="erste\nnäher: needle\n".encode("utf-16"))
    return "a:2: näher: needle"


def in_latin_1(root: Path) -> str:
    written(root, a="größer needle\n".encode("latin-1"))
    return "a:1: größer needle"


def behind_a_byte_order_mark(root: Path) -> str:
    written(root, a="needle\n".encode("utf-8-sig"))
    return "a:1: needle"


def behind_a_form_feed(root: Path) -> str:
    written(root, a="one\x0c\u2028still one\nneedle\n")
    return "a:2: needle"


PLACES = [
    far_to_the_right,
    far_below,
    in_a_file_without_end,
    behind_a_carriage_return,
    in_utf_16,
    in_latin_1,
    behind_a_byte_order_mark,
    behind_a_form_feed,
]


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.__name__)
async def test_a_line_is_found_wherever_it_is(place: Callable[[Path], str], tmp_path: Path) -> None:
    expected = place(tmp_path)
    (words,) = await told(tmp_path, search("^needle" if place is behind_a_byte_order_mark else "needle"))
    assert re.fullmatch(expected, words)


async def test_a_line_has_the_number_under_which_it_is_read(tmp_path: Path) -> None:
    written(tmp_path, a="one\x0c\u2028\x1cstill one\r\nneedle\n")
    found, read = await told(tmp_path, search(), call("read_file", path="a", offset=2))
    assert (found, read) == ("a:2: needle", "     2\tneedle")


async def test_case_counts_unless_it_is_not_to(tmp_path: Path) -> None:
    written(tmp_path, a="Needle\n")
    without, exactly = await told(tmp_path, search("nEEDLE", ignore_case=True), search("nEEDLE"))
    assert without == "a:1: Needle"
    assert "a:1" not in exactly


async def test_a_hit_in_text_that_is_no_text_is_told_without_the_line(tmp_path: Path) -> None:
    written(tmp_path, a_bin=b"\x00\x01needle\n", b_txt="needle")
    assert await told(tmp_path, search()) == ["a.bin: it matches, and is no text\nb.txt:1: needle"]


async def test_a_file_that_is_named_is_searched_whatever_else_is_said(tmp_path: Path) -> None:
    written(tmp_path, _gitignore="*.log\n", src__a_log="needle\n")
    expected = "src/a.log:1: needle"
    steps = [search(path="src/a.log", include=glob) for glob in ("**/*.log", "*.py", "")]
    assert await told(tmp_path, *steps) == [expected] * 3


@pytest.mark.parametrize(
    "glob",
    [
        "*.{ts,tsx}",
        "**/*.tsx",
        "src/**/*.tsx",
        "web/*.tsx",
        "./src/web/*.tsx",
        "src/",
        "[ab].tsx",
        "!*.py",
        "{cwd}/**",
    ],
)
async def test_a_glob_means_what_models_write(glob: str, tmp_path: Path) -> None:
    written(tmp_path, src__web__a_tsx="needle\n", other_py="needle\n")
    root = str(tmp_path)
    steps = [
        search(path="src", include=glob.replace("{cwd}", root)),
        call("list_files", path="src", pattern=glob.replace("{cwd}", root)),
    ]
    assert await told(tmp_path, *steps) == ["src/web/a.tsx:1: needle", "src/web/a.tsx"]


async def test_lines_of_a_protected_file_take_no_place(tmp_path: Path) -> None:
    written(tmp_path, _env="needle SECRET\n" * 2000, z_py="needle\n" * 501)
    os.link(tmp_path / ".env", tmp_path / "a.txt")
    searched, listed = await told(tmp_path, search(), call("list_files", pattern="*.{txt,py}"))
    *lines, more = searched.splitlines()
    assert (lines[0], len(lines)) == ("z.py:1: needle", 500)
    assert more == "(The first 500; there are more. Narrow it down.)"
    assert listed == "z.py"


async def test_as_many_as_are_shown_are_not_called_more(tmp_path: Path) -> None:
    written(tmp_path, a="needle\n" * 500)
    assert len((await told(tmp_path, search()))[0].splitlines()) == 500


# What is not there, or was not looked at, is told


async def test_nothing_found_says_in_what(tmp_path: Path) -> None:
    written(tmp_path, a_py="x\n", b_py="y\n", out__c_py="needle\n", _gitignore="out/\n")
    steps = [search(), search(include="*.rs"), search("no\nneedle"), search(path="out")]
    nothing, unfit, broken, named = await told(tmp_path, *steps)
    assert nothing == (
        "Nothing found in the 3 files there; protected ones are not looked at. "
        "Ignored by version control: 1 of the files and directories; to look there, name it."
    )
    assert unfit == "No file fits *.rs; there are 3 others."
    assert broken == "Lines are searched one by one: no line has a line break in it. Search for one line."
    assert named == "out/c.py:1: needle"


async def test_what_is_too_long_or_closed_to_us_is_told(tmp_path: Path) -> None:
    written(tmp_path, large_log=b"a line\n" * (MAX_FILE // 7 + 1) + b"needle\n", a_txt="needle\n")
    (tmp_path / os.fsdecode(b"\xff")).write_text("needle\n")
    os.symlink(tmp_path / "a.txt", tmp_path / "link.txt")
    (words,) = await told(tmp_path, search())
    assert words.splitlines() == [
        "a.txt:1: needle",
        "(Only the first 32 MiB were searched of 1 file: large.log.)",
        "(Not searched, as their names are not text: 1.)",
    ]


async def test_a_search_that_takes_too_long_shows_what_it_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dragoman.coder.search.finding.PATIENCE", 6.0)
    written(tmp_path, a="needle\n", b="a" * 200 + "!")
    (words,) = await told(tmp_path, search("needle|(a+)+$"))
    first, note = words.splitlines()
    assert first == "a:1: needle"
    ended = r"\(The search was ended after \d+ s and \d+ files\. Search a smaller part for the rest\.\)"
    assert re.fullmatch(ended, note)
    monkeypatch.setattr("dragoman.coder.search.finding.PATIENCE", 0.001)
    (words,) = await told(tmp_path, search("(a+)+$"))
    assert "Nothing was found until then" in words


async def test_a_file_in_a_directory_that_became_a_link_is_not_shown(tmp_path: Path) -> None:
    written(tmp_path, elsewhere__key="needle\n")
    os.symlink(tmp_path / "elsewhere", tmp_path / "src")
    looked = SearchCounts()
    assert Matcher("needle").hits(str(tmp_path / "src" / "key"), looked) is None
    assert (looked.files, looked.unreadable.first) == (0, [str(tmp_path / "src" / "key")])


# What version control ignores


async def test_a_gitignore_above_the_session_counts_up_to_its_repository(tmp_path: Path) -> None:
    written(
        tmp_path,
        _gitignore="*\n",
        repo___gitignore="*.log\n/sub/out\n",
        repo__sub__a_log="needle",
        repo__sub__a_py="needle",
    )
    written(tmp_path, repo__sub__out__b="needle", repo__sub__deep__out__c="needle")
    (tmp_path / "repo" / ".git").mkdir()
    assert await told(tmp_path / "repo" / "sub", search()) == ["a.py:1: needle\ndeep/out/c:1: needle"]


async def test_outside_a_repository_no_gitignore_above_the_session_counts(tmp_path: Path) -> None:
    written(tmp_path, _gitignore="*\n", work__sub__a="needle", work__sub__b="needle", work___gitignore="b\n")
    assert await told(tmp_path / "work", search(path="sub")) == ["sub/a:1: needle"]


async def test_a_pipe_under_the_name_of_a_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / ".gitignore")
    os.mkfifo(tmp_path / "pipe")
    written(tmp_path, a="needle\n")
    assert await told(tmp_path, search()) == ["a:1: needle"]


async def test_a_directory_under_the_name_of_a_gitignore_ignores_nothing(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").mkdir()
    written(tmp_path, a="needle\n", sub__b="needle\n")
    assert await told(tmp_path, search()) == ["a:1: needle\nsub/b:1: needle"]


def test_no_glob_and_no_gitignore_takes_long(tmp_path: Path) -> None:
    deep = tmp_path.joinpath(*"a" * 40)
    deep.mkdir(parents=True)
    (deep / ("a" * 250)).write_text("needle\n")
    (tmp_path / ".gitignore").write_text(f"{'*a' * 60}b\n{'**/a/' * 20}**/b\n{'**/' * 50}b\n")
    for glob in ("**/" * 50 + "x", "**/a/" * 20 + "x", "*a" * 100 + "x"):
        *hits, looked = found(SearchRequest(str(tmp_path), str(tmp_path), glob, "needle"))
        assert (hits, isinstance(looked, SearchCounts) and looked.others) == ([], 2)


async def test_a_name_with_a_line_break_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "a\nb.py:7: made up").write_text("needle\n")
    searched, listed = await told(tmp_path, search(), call("list_files"))
    assert (len(searched.splitlines()), len(listed.splitlines())) == (1, 1)


@pytest.mark.skipif(shutil.which("git") is None, reason="Git is not installed")
def test_what_is_listed_is_what_git_lists() -> None:
    compare_with_git(80)


# How it is done does not show


def test_a_search_finds_what_a_loop_over_all_lines_finds() -> None:
    compare_with_naive_search(300)


def test_no_letter_of_either_case_escapes_the_quick_look() -> None:
    every = "".join(map(chr, [*range(1, 0xD800), *range(0xE000, sys.maxunicode + 1)])).replace("\n", "")
    for letter in map(chr, range(33, 127)):
        pattern = re.compile(re.escape(letter), re.IGNORECASE)
        find = finder(pattern)
        assert find is not None
        assert all(find(other.encode(), 0) == 0 for other in pattern.findall(every))


async def test_many_searches_at_once_take_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started, most = [], 0
    start = asyncio.create_subprocess_exec

    async def counted(*words: Any, **options: Any) -> asyncio.subprocess.Process:
        nonlocal most
        started.append(await start(*words, **options))
        most = max(most, sum(process.returncode is None for process in started))
        return started[-1]

    monkeypatch.setattr(asyncio, "create_subprocess_exec", counted)
    written(tmp_path, a="needle\n")
    words = await told(tmp_path, [search(f"needle|x{number}") for number in range(12)])
    assert (len(started), set(words)) == (12, {"a:1: needle"})
    assert most <= 4


@pytest.mark.parametrize(
    ("pattern", "numbers"),
    [
        (r"\d{3}", [2, 5]),
        (r"[a-z]+\b", [1, 2, 3, 6]),
        (r"\S\S\S\S", [1, 3, 5, 6]),
        (r"z*", [1, 2, 3, 4, 5, 6]),
        (r"[^x]{9}", [5, 6]),  # may take a line break, and takes none
        (r"\s\d", [2]),
        (r"(?:[a-e]++|\d+?)\b", [1, 2, 3, 5]),
        (r"^\d", [5]),
        (r"\d$", [2, 5]),
        (r"(?<!\w)\w{4,}$", [1, 5, 6]),
        (r"(?s:.){9}", [5, 6]),
    ],
)
def test_an_expression_without_a_word_means_the_same_in_every_line(
    pattern: str, numbers: list[int], tmp_path: Path
) -> None:
    for end in ("\n", "\r\n"):  # which are read in two ways
        (tmp_path / "a").write_text("abcd\nx 123\nwxyz de\n\n123456789\nklmnopqrst", newline=end)
        said = found(SearchRequest(str(tmp_path), str(tmp_path), "", pattern))
        assert [number for each in said if isinstance(each, FileMatches) for number, _ in each.lines] == numbers

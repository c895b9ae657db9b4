"""A repair replaces ranges of a file's bytes; no other byte of it changes, whatever it is encoded in."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.reviewer.findings import Finding, Source
from dragoman.reviewer.repairs.decoding import decoded
from dragoman.reviewer.repairs.drafts import RepairDraft, ReplacedRange, in_bytes, spliced
from dragoman.reviewer.repairs.fixes import _errors

from .conftest import User, reviewing

MARK = b"\xef\xbb\xbf"
KINDS = {"utf-8": ("utf-8", ""), "mark": ("utf-8", "\ufeff"), "latin-1": ("latin-1", "# coding: latin-1\n")}
KINDS["shift_jis"] = ("shift_jis", "# -*- coding: shift_jis -*-\n")
LETTERS = {"utf-8": "aé語\U0001f600", "latin-1": "aéÿ\x85", "shift_jis": "a語ｱ"}


@st.composite
def files(draw: st.DrawFn) -> tuple[bytes, str]:
    """The bytes of a file, and the encoding they are in."""
    encoding, head = KINDS[draw(st.sampled_from(sorted(KINDS)))]
    letters = st.text(alphabet=LETTERS[encoding] + " \x0c\n\r", max_size=60)
    text = head + draw(letters)
    if draw(st.booleans()):
        text = text.replace("\n", "\r\n")
    return text.encode(encoding), encoding


@settings(max_examples=300, deadline=None)
@given(files(), st.data())
def test_no_byte_outside_of_the_ranges_changes(file: tuple[bytes, str], data: st.DataObject) -> None:
    content, encoding = file
    known = decoded(content)
    assert not known.error and known.text.encode(encoding) == content
    source = Source("a.py", known.text, encoding=known.encoding)
    draft = RepairDraft(known.text)
    for _ in range(data.draw(st.integers(1, 3))):
        places = data.draw(st.lists(st.integers(0, len(draft.text)), max_size=6).map(sorted))
        pairs = zip(places[::2], places[1::2], strict=False)
        edits = [
            ReplacedRange(a, b, data.draw(st.text(alphabet=LETTERS[encoding] + "\n", max_size=3))) for a, b in pairs
        ]
        expected = draft.text
        for a, b, new in sorted(edits, reverse=True):
            expected = expected[:a] + new + expected[b:]
        draft = draft.edited(edits)
        assert draft.text == expected
    ranges = in_bytes(source, draft)
    if ranges is None:  # the comment that names the encoding would be lost
        assert known.encoding
        return
    after = spliced(content, ranges)
    assert after == source.encoded(draft.text)
    at = moved = 0
    for start, end, new in ranges:
        assert at <= start <= end
        assert after[at + moved : start + moved] == content[at:start]
        moved += len(new) - (end - start)
        at = end
    assert after[at + moved :] == content[at:]


FILES = {
    "utf_8.py": "import os\nprint('é', '\U0001f600'); import re\n".encode(),
    "latin_1.py": "# -*- coding: latin-1 -*-\nimport os\nprint('é')\n".encode("latin-1"),
    "second_line.py": "#!/usr/bin/python\n# vim: set fileencoding=koi8-r :\nimport os\nprint('я')\n".encode(
        "koi8-r"
    ),
    "crlf.py": b"import os\r\nprint(f'a')\r\n",
    "mark.py": MARK + b"x = f'a'\nimport os\n",
    "form_feed.py": b"\x0cimport os\n\x0c\nprint(f'\x0c')\n",
    "returns.py": b"x = 1\rimport os\rprint(x)\n",
}
REPAIRED = {
    "utf_8.py": "print('é', '\U0001f600'); \n".encode(),  # as Ruff's own edit leaves it
    "latin_1.py": "# -*- coding: latin-1 -*-\nprint('é')\n".encode("latin-1"),
    "second_line.py": "#!/usr/bin/python\n# vim: set fileencoding=koi8-r :\nprint('я')\n".encode("koi8-r"),
    "crlf.py": b"print('a')\r\n",
    "mark.py": MARK + b"x = 'a'\n",
    "form_feed.py": b"\x0c\nprint('\x0c')\n",
    "returns.py": b"x = 1\rprint(x)\n",
}


async def test_a_repair_keeps_encoding_line_ends_mark_and_form_feeds(project: Path) -> None:
    for name, content in FILES.items():
        (project / name).write_bytes(content)
    async with reviewing(project, User("apply-all")) as reviewer:
        turn = await reviewer.say("/fix")
    assert {name: (project / name).read_bytes() for name in FILES} == REPAIRED, turn.text


@pytest.mark.parametrize(
    "name", ["utf-16", "utf-7", "unicode_escape", "idna", "punycode", "hex", "rot13", "cp037", "x"]
)
def test_an_encoding_that_cannot_be_one_of_a_text_like_this_does_not_count(name: str) -> None:
    assert decoded(f"# coding: {name}\n# ".encode() + b"\xe9\n").error == 2


def test_an_error_in_place_of_another_of_its_kind_is_a_new_one() -> None:
    one, other = (Finding("a.py", 1, "error", "F821", f"undefined name {name}") for name in "ab")
    assert _errors([other]) - _errors([one]) and _errors([one, one]) - _errors([one])
    assert not _errors([one]) - _errors([one, other])


@pytest.mark.parametrize(
    ("encoding", "text", "edit"),
    [
        ("latin-1", "# coding: latin-1\nx = 'é'\n", ReplacedRange(0, 18, "")),  # what is left is not UTF-8
        (
            "latin-1",
            "# coding: latin-1\nx = 'é'\n",
            ReplacedRange(10, 17, "koi8-r"),
        ),  # it would mean another letter
        ("euc_jis_2004", "# coding: euc_jis_2004\nx = 'か\u309a'\n", ReplacedRange(29, 30, "")),  # one code is cut
    ],
    ids=["name lost", "name changed", "code cut"],
)
def test_a_repair_after_which_the_bytes_would_be_read_as_another_text_is_none(
    encoding: str, text: str, edit: ReplacedRange
) -> None:
    known = decoded(text.encode(encoding))
    assert known.text == text and known.encoding == encoding
    source = Source("a.py", text, encoding=encoding)
    kept = RepairDraft(text).edited([ReplacedRange(len(text) - 1, len(text) - 1, " ")])
    assert in_bytes(source, kept)
    assert in_bytes(source, RepairDraft(text).edited([edit])) is None

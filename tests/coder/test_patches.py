"""Patches of the models that write them: read, applied, refused."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.coder import ScriptedModel, call
from dragoman.coder.files.edits import NoMatch
from dragoman.coder.files.patches import BadPatch, patched, read_patch

from .desk import DiskClient, asked, calls, desk, results

pytestmark = pytest.mark.usefixtures("nothing_left")

BEFORE = "import os\n\n\ndef one():\n    return 1\n\n\ndef two():\n    return 1\n"


def applied(*lines: str, text: str = BEFORE) -> str:
    (patch,) = read_patch("\n".join(["*** Begin Patch", "*** Update File: a.py", *lines, "*** End Patch"]))
    return patched(text, patch)


def test_lines_are_replaced_added_and_taken_away() -> None:
    assert applied("@@ def two():", "-    return 1", "+    return 2") == BEFORE[:-2] + "2\n"
    assert applied("-import os") == BEFORE.removeprefix("import os\n")
    assert applied("@@ def one():", "+    # first") == BEFORE.replace("one():\n", "one():\n    # first\n")
    assert applied("+x = 1", "*** End of File") == BEFORE + "x = 1\n"
    assert applied(" def one():", "-    return 1", "+    return 2", "@@", "+x = 1").count("return 2\nx = 1\n") == 1


def test_what_is_not_touched_stays_as_it_is() -> None:
    assert (
        applied("-import os", "+import sys", text="import os  \r\nx \r\n\x0c\r\n") == "import sys\r\nx \r\n\x0c\r\n"
    )
    assert applied("-a", "+b", text="a\nno end") == "b\nno end"
    assert applied("+b", text="no end") == "no end\nb"


@pytest.mark.parametrize(
    ("lines", "text", "after"),
    [
        (["-b", "+c"], "a\r\nb", "a\r\nc"),
        (["+c"], "a\r\nb", "a\r\nb\r\nc"),
        ([" b", "+c"], "a\r\nb", "a\r\nb\r\nc"),
        (["-b"], "a\r\nb", "a"),
        (["-a"], "a", ""),
        (["+a"], "", "a\n"),
        ([" one", "-two", "+2"], "one  \t\r\ntwo\r\n", "one  \t\r\n2\r\n"),
        ([" one", "-two", "+2"], "one\ntwo\nthree\r\n", "one\n2\r\nthree\r\n"),
        (["-a\x0cb", "+c"], "a\x0cb\n", "c\n"),
        ([" \x0c", "-b", "+a\u2028b\x1c"], "\x0c\nb\n", "\x0c\na\u2028b\x1c\n"),
    ],
)
def test_line_ends_and_form_feeds_are_the_files_own(lines: list[str], text: str, after: str) -> None:
    assert applied(*lines, text=text) == after


@given(
    st.lists(st.sampled_from(["a", "b", "", " c", "\x0c", "d\u2028", "e \t"]), min_size=1, max_size=8),
    st.lists(st.sampled_from(["\n", "\r\n"]), min_size=8, max_size=8),
    st.booleans(),
    st.data(),
)
def test_a_patch_changes_its_lines_and_no_byte_beside_them(
    lines: list[str], ends: list[str], has_end: bool, data: st.DataObject
) -> None:
    whole = [line + end for line, end in zip(lines, ends, strict=False)]
    if not has_end:
        whole[-1] = lines[-1] + "z"
    at = data.draw(st.integers(0, len(lines) - 1))
    marks = [f" {line.rstrip(chr(10)).rstrip(chr(13))}" for line in whole]
    marks[at] = f"-{marks[at][1:]}"
    done = applied(*marks[: at + 1], "+new", *marks[at + 1 :], text="".join(whole))
    usual = "\r\n" if "\r\n" in "".join(whole) else "\n"
    is_last = at == len(whole) - 1
    assert done == "".join([*whole[:at], "new" if is_last and not has_end else f"new{usual}", *whole[at + 1 :]])


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        (["-    return 1", "+    return 2"], "lines 5, 9"),
        (["-import sys"], "not in the file"),
        (["@@ def three():", "-    return 1"], "No line says"),
        (["@@ def two():", "-import os"], "not in the file"),
    ],
)
def test_what_does_not_fit_is_told(lines: list[str], why: str) -> None:
    with pytest.raises(NoMatch, match=why):
        applied(*lines)


@pytest.mark.parametrize(
    "body",
    [
        "",
        "*** Update File: a.py",
        "*** Update File: a.py\nno mark",
        "*** Delete File: a.py",
        "*** Add File: a.py\nno plus",
        "stray\n*** Update File: a.py\n-x",
        "*** Add File: a.py\n+x\n*** Add File: a.py\n+y",
    ],
)
def test_what_is_no_patch_is_none(body: str) -> None:
    with pytest.raises(BadPatch):
        read_patch(f"*** Begin Patch\n{body}\n*** End Patch")
    with pytest.raises(BadPatch):
        read_patch(body)


PATCH = """*** Begin Patch
*** Update File: a.py
@@ def two():
-    return 1
+    return 2
*** Add File: src/b.py
+x = 1
*** End Patch"""


async def test_a_patch_is_shown_as_diffs_and_written(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(BEFORE)
    steps = [
        call("apply_patch", patch=PATCH),
        call("read_file", path="a.py"),
        call("apply_patch", patch=PATCH),
        "Done.",
    ]
    model = ScriptedModel(*steps, name="openai:gpt-x")
    async with desk(tmp_path, model=model) as (session, client, _):
        await session.prompt("Go")
    assert [outcome for _, outcome, _ in results(model)] == ["failed", "success", "success"]
    assert "Read a.py before" in results(model)[0][2] and "Patched a.py, src/b.py." in results(model)[2][2]
    shown = list(calls(client).values())[-1]
    assert shown["title"] == "Patch a.py, src/b.py" and len(shown["content"]) == 2
    assert (tmp_path / "a.py").read_text() == BEFORE[:-2] + "2\n"
    assert (tmp_path / "src" / "b.py").read_text() == "x = 1\n"
    assert len(asked(client)) == 2


@pytest.mark.parametrize("mode", ["ask", "architect", "plan"])
async def test_a_patch_passes_the_same_gate_as_any_edit(mode: str, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(BEFORE)
    steps = [call("read_file", path="a.py"), call("apply_patch", patch=PATCH), "Done."]
    model, client = ScriptedModel(*steps, name="openai:gpt-x"), DiskClient(permissions="reject")
    async with desk(tmp_path, model=model, mode=mode, client=client) as (session, _, _model):
        await session.prompt("Go")
    assert results(model)[1][1] == "denied" and "Patched before: nothing." in results(model)[1][2]
    assert (tmp_path / "a.py").read_text() == BEFORE and not (tmp_path / "src").exists()
    assert ("apply_patch" in {tool.name for tool in model.requests[0].tools}) == (mode == "ask")


async def test_only_models_that_were_taught_it_are_offered_it(tmp_path: Path) -> None:
    async with desk(tmp_path, call("apply_patch", patch=PATCH), "Done.") as (session, _, model):
        await session.prompt("Go")
    assert "There is no tool 'apply_patch'" in results(model)[0][2]


@pytest.mark.parametrize("other", ["./a.py", "src/../a.py", "link.py", "twin.py"])
async def test_a_file_under_two_names_is_not_half_patched(other: str, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("one\ntwo\n")
    (tmp_path / "link.py").symlink_to("a.py")
    (tmp_path / "twin.py").hardlink_to(tmp_path / "a.py")
    patch = f"*** Begin Patch\n*** Update File: a.py\n-one\n+1\n*** Update File: {other}\n-two\n+2\n*** End Patch"
    steps = [
        call("read_file", path="a.py"),
        call("read_file", path=other),
        call("apply_patch", patch=patch),
        "Done.",
    ]
    async with desk(tmp_path, model=ScriptedModel(*steps, name="gpt-x"), mode="code") as (session, _, model):
        await session.prompt("Go")
    (_, outcome, words) = results(model)[-1]
    assert outcome == "failed" and "are one file" in words and words.endswith("Nothing was changed.")
    assert (tmp_path / "a.py").read_text() == "one\ntwo\n"

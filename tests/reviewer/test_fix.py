"""Repairs: shown as diffs, written where they belong and only when allowed, then checked again."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from dragoman import InvalidParams
from dragoman import schema as s

from .conftest import Editor, User, reviewing

Write = Callable[[str, str], Path]

UNUSED = "import os\nimport sys\n\nprint(sys.argv)\n"
USED = "import sys\n\nprint(sys.argv)\n"


def diff_of(question: s.RequestPermissionRequest) -> s.Diff:
    (diff,) = question.tool_call.content or ()
    assert isinstance(diff, s.Diff)
    return diff


@pytest.mark.usefixtures("nothing_left")
async def test_a_repair_is_shown_as_a_diff_before_it_is_written(project: Path, write: Write) -> None:
    path = write("a.py", UNUSED)
    seen: list[str] = []

    class Careful(User):
        async def request_permission(self, params: s.RequestPermissionRequest) -> s.RequestPermissionResponse:
            seen.append(path.read_text())
            return await super().request_permission(params)

    user = Careful("apply")
    async with reviewing(project, user) as reviewer:
        turn = await reviewer.say("/fix")
    assert seen == [UNUSED]
    assert path.read_text() == USED
    assert diff_of(user.questions[0]) == s.Diff(path=str(path), old_text=UNUSED, new_text=USED)
    assert user.questions[0].tool_call.kind == "edit"
    assert user.questions[0].tool_call.locations == [s.ToolCallLocation(path=str(path), line=1)]
    assert "**Repaired 1 finding** in 1 file" in turn.text
    assert turn.calls[-1].title == "Check 1 repaired file again"
    assert "Nothing else was found." in turn.text


async def test_repairs_go_through_the_clients_files_where_it_lends_them(project: Path, write: Write) -> None:
    path = write("a.py", UNUSED)
    editor = Editor("apply")
    editor.buffers[str(path)] = "import json\n" + UNUSED  # not saved
    async with reviewing(project, editor) as reviewer:
        await reviewer.say("/fix")
    assert editor.written == {str(path): USED}
    assert diff_of(editor.questions[0]).old_text == "import json\n" + UNUSED


async def test_what_is_declined_stays_as_it_was(project: Path, write: Write) -> None:
    path = write("a.py", UNUSED)
    async with reviewing(project, User("leave")) as reviewer:
        turn = await reviewer.say("/fix")
    assert path.read_text() == UNUSED
    assert "Nothing was changed." in turn.text
    edit = next(call for call in turn.calls if call.kind == "edit")
    assert turn.updates_of(edit)[-1].status == "failed"
    assert turn.stop_reason == "end_turn"


@pytest.mark.parametrize(
    ("choices", "asked", "written"),
    [
        (("apply-all",), 1, ["a.py", "b.py", "c.py"]),
        (("leave", "apply-all"), 2, ["b.py", "c.py"]),
        (("apply", "leave-all"), 2, ["a.py"]),
        (("nonsense",), 3, []),
    ],
)
async def test_one_answer_can_do_for_all_that_follow(
    project: Path, write: Write, choices: tuple[str, ...], asked: int, written: list[str]
) -> None:
    paths = [write(name, UNUSED) for name in ("a.py", "b.py", "c.py")]
    user = User(*choices)
    async with reviewing(project, user) as reviewer:
        await reviewer.say("/fix")
    assert len(user.questions) == asked
    assert [path.name for path in paths if path.read_text() == USED] == written


async def test_only_the_codes_named_are_repaired(project: Path, write: Write) -> None:
    path = write("a.py", 'import os\n\nprint(f"x")\n')
    async with reviewing(project, User("apply")) as reviewer:
        await reviewer.say("/fix F541")
    assert path.read_text() == 'import os\n\nprint("x")\n'


async def test_a_file_that_changes_while_the_user_thinks_is_left_alone(project: Path, write: Write) -> None:
    path = write("a.py", UNUSED)

    class Slow(User):
        async def request_permission(self, params: s.RequestPermissionRequest) -> s.RequestPermissionResponse:
            path.write_text("something else\n")
            return await super().request_permission(params)

    async with reviewing(project, Slow("apply")) as reviewer:
        turn = await reviewer.say("/fix a.py")
    assert path.read_text() == "something else\n"
    assert "has changed since the review" in repr(turn.updates)


async def test_a_client_that_will_not_write_is_heard(project: Path, write: Write) -> None:
    class ReadOnly(Editor):
        async def write_text_file(self, params: s.WriteTextFileRequest) -> s.WriteTextFileResponse:
            raise InvalidParams("the file is read-only")

    path = write("a.py", UNUSED)
    async with reviewing(project, ReadOnly("apply")) as reviewer:
        turn = await reviewer.say("/fix")
    assert path.read_text() == UNUSED
    assert "the file is read-only" in repr(turn.updates)
    assert turn.stop_reason == "end_turn"


async def test_a_file_written_directly_keeps_its_mode(project: Path, write: Write) -> None:
    path = write("run.sh", "#!/bin/sh\r\necho hello\r\n")
    path.chmod(0o750)
    async with reviewing(project, User("apply")) as reviewer:
        await reviewer.say("/fix")
    assert path.read_bytes() == b"#!/bin/sh\necho hello\n"
    assert os.stat(path).st_mode & 0o777 == 0o750


async def test_an_attached_file_from_elsewhere_is_reviewed_but_not_written(project: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside.py"
    outside.write_text(UNUSED)
    attached = s.EmbeddedResource(resource=s.TextResourceContents(uri=outside.as_uri(), text=UNUSED))
    user = User("apply")
    async with reviewing(project, user) as reviewer:
        turn = await reviewer.say("/fix", attached)
    assert turn.codes == {"F401"}
    assert user.questions == []
    assert outside.read_text() == UNUSED


async def test_a_cancelled_question_writes_nothing(project: Path, write: Write) -> None:
    class Absent(User):
        async def request_permission(self, params: s.RequestPermissionRequest) -> s.RequestPermissionResponse:
            await asyncio.Event().wait()
            raise AssertionError

    path = write("a.py", UNUSED)
    async with reviewing(project, Absent()) as reviewer:
        turn = await reviewer.say("/fix", until=lambda turn: any(call.kind == "edit" for call in turn.calls))
        assert turn.stop_reason == "cancelled"
        edit = next(call for call in turn.calls if call.kind == "edit")
        assert turn.updates_of(edit)[-1].status == "failed"
    assert path.read_text() == UNUSED


async def test_a_repair_of_some_files_leaves_the_findings_of_the_others(project: Path, write: Write) -> None:
    write("a.py", UNUSED)
    write("b.yaml", "a: 1\na: 2\n")
    async with reviewing(project, User("apply")) as reviewer:
        turn = await reviewer.say("/fix")
    assert "Left: **1 warning**." in turn.text
    assert "`b.yaml:2`" in turn.text


async def test_where_nothing_can_be_repaired_nobody_is_asked(project: Path, write: Write) -> None:
    write("a.yaml", "a: 1\na: 2\n")
    user = User("apply")
    async with reviewing(project, user) as reviewer:
        turn = await reviewer.say("/fix")
    assert user.questions == []
    assert "There is nothing I can repair safely." in turn.text


# What a repair must not do


async def test_a_file_that_cannot_be_decoded_is_never_written(project: Path) -> None:
    contents = {
        "a.py": "import os\n# caf\u00e9\nprint(1)\n".encode("latin-1"),
        "b.py": "# coding: no-such-thing\nimport os\n# caf\u00e9\n".encode("latin-1"),
        "c.py": b"# coding: utf-8\nimport os\n# caf\xe9\n",
        "d.sh": "#!/bin/sh\r\necho caf\u00e9\r\n".encode("latin-1"),
    }
    for name, content in contents.items():
        (project / name).write_bytes(content)
    async with reviewing(project, User("apply-all")) as reviewer:
        turn = await reviewer.say("/fix")
        reviewed = await reviewer.say("/review")
    assert {name: (project / name).read_bytes() for name in contents} == contents
    assert "nothing I can repair safely" in turn.text
    assert "can repair" not in reviewed.text


async def test_a_file_in_another_encoding_is_not_written_through_a_client_that_has_utf_8_alone(
    project: Path,
) -> None:
    before = "# coding: latin-1\nimport os\nprint('\u00e9')\n".encode("latin-1")
    (project / "a.py").write_bytes(before)
    editor = Editor("apply-all")
    async with reviewing(project, editor) as reviewer:
        turn = await reviewer.say("/fix")
    assert (project / "a.py").read_bytes() == before and editor.written == {}
    assert ("a.py", 2, "F401") in turn.findings


@pytest.mark.parametrize("words", ["/fix", "/fix diff"])
async def test_what_cannot_be_repaired_is_not_promised_afterwards(project: Path, write: Write, words: str) -> None:
    subprocess.run(["git", "init", "-q"], cwd=project, check=True)  # noqa: ASYNC221
    write("a.py", "# coding: latin-1\nimport os\n").write_bytes(b"# coding: latin-1\nimport os\n# \xe9\n")
    async with reviewing(project, Editor("apply-all")) as reviewer:
        turn = await reviewer.say(words)
    assert "nothing I can repair safely" in turn.text and "can repair 1" not in turn.text


NOT_UNDERSTOOD = ("modles.py", "docs/", "my file.py", "f401", "a.py modles.py", "nowhere/a.py", "please")


@pytest.mark.parametrize("verb", ["review", "fix", "todo"])
async def test_a_word_that_is_not_understood_refuses_and_never_widens(
    project: Path, write: Callable[[str, str], Path], verb: str
) -> None:
    path = write("a.py", "import os\nprint(1)  # TODO: more\n")
    user = User("apply-all")
    async with reviewing(project, user) as reviewer:
        for words in NOT_UNDERSTOOD:
            with pytest.raises(InvalidParams, match=words.split()[-1]) as caught:
                await reviewer.say(f"/{verb} {words}")
            assert (caught.value.data, words) == ({"kind": "not_understood"}, words)
            assert user.questions == [] and path.read_text().startswith("import os")


# A file that is committed, then changed, then repaired.
IN_A_DIFF = {
    "another of the same kind": (
        "a.py",
        "import os\n\n\ndef f():\n    return 1\n",
        "import os\n\n\ndef f():\n    import re\n    return 1\n",
        "import os\n\n\ndef f():\n    return 1\n",
    ),
    "an edit that reaches further": (
        "a.py",
        "import abc\nimport json\n\nprint(os, json)\n",
        "import os\nimport json\n\nprint(os, json)\n",
        "import os\nimport json\n\nprint(os, json)\n",
    ),
    "a repair of our own": (
        "a.sh",
        '#!/bin/sh\n[ "$1" == a ] && exit 1\nexit 0\n',
        '#!/bin/sh\n[ "$1" == a ] && exit 1\n[ "$1" == b ] && exit 2\nexit 0\n',
        '#!/bin/sh\n[ "$1" == a ] && exit 1\n[ "$1" = b ] && exit 2\nexit 0\n',
    ),
}


@pytest.mark.parametrize("extent", ["diff", "staged"])
@pytest.mark.parametrize("case", IN_A_DIFF)
async def test_a_repair_of_a_diff_changes_nothing_outside_of_it(
    project: Path, write: Callable[[str, str], Path], extent: str, case: str
) -> None:
    name, before, changed, after = IN_A_DIFF[case]
    git = ["git", "-c", "user.name=A", "-c", "user.email=a@b", "-C", str(project)]
    write("pyproject.toml", '[tool.ruff.lint]\nselect = ["F401", "I001"]\n')
    write(name, before)
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "one"]):
        subprocess.run([*git, *words], check=True)  # noqa: ASYNC221
    write(name, changed)
    subprocess.run([*git, "add", "."], check=True)  # noqa: ASYNC221
    async with reviewing(project, User("apply-all")) as reviewer:
        turn = await reviewer.say(f"/fix {extent}")
    assert turn.findings
    assert (project / name).read_text() == after


async def test_an_import_that_another_module_takes_from_there_is_not_unused(
    project: Path, write: Callable[[str, str], Path]
) -> None:
    write("pkg/__init__.py", "from .low import deep\n")
    low = write(
        "pkg/low.py", "import json\nimport os\nimport re as rx\nimport sys\n\n\ndef deep():\n    return 1\n"
    )
    write(
        "pkg/high.py",
        "from .low import (\n    deep,\n    json as j,\n)\nfrom . import low\n\nprint(deep, j, low.rx)\n",
    )
    async with reviewing(project, User("apply-all")) as reviewer:
        await reviewer.say("/fix pkg/low.py")
    assert low.read_text() == "import json\nimport re as rx\n\n\ndef deep():\n    return 1\n"
    command = [sys.executable, "-c", "import pkg.high"]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True)  # noqa: ASYNC221
    assert done.returncode == 0, done.stderr


async def test_an_import_that_is_there_for_others_or_for_what_it_does_is_left(project: Path, write: Write) -> None:
    write("shop/__init__.py", "")
    write("shop/plugins.py", "print('loaded')\n")
    write("shop/errors.py", "class Gone(Exception):\n    pass\n")
    kept = {
        "shop/app.py": "import shop.plugins\nfrom shop.errors import Gone\n\n\ndef f():\n    return 1\n",
        "tests/test_app.py": "from shop.errors import Gone\n\n\ndef test_f(Gone):\n    assert Gone\n",
        "tests/test_imports.py": "def load():\n    import shop.nowhere\n",
        "tests/conftest.py": "from shop.errors import Gone\n\n\ndef f():\n    return 1\n",
    }
    paths = {name: write(name, text) for name, text in kept.items()}
    unused = write("tests/test_unused.py", "from shop.errors import Gone\n\n\ndef test_f():\n    assert 1\n")
    async with reviewing(project, User("apply-all")) as reviewer:
        turn = await reviewer.say("/fix")
    assert {name: path.read_text() for name, path in paths.items()} == kept
    assert unused.read_text() == "\n\ndef test_f():\n    assert 1\n" and "Repaired 1 finding" in turn.text


async def test_a_repair_that_brings_another_error_in_place_of_one_is_not_offered(
    project: Path, tmp_path: Path, write: Write, bare_command: list[str]
) -> None:
    path = write("a.py", "x = (\n")
    place = {"row": 1, "column": 5}, {"row": 1, "column": 6}
    edit = {"location": place[0], "end_location": place[1], "content": ")"}
    told = {
        "code": "F999",
        "filename": str(path),
        "message": "a bracket",
        "location": place[0],
        "fix": {"applicability": "safe", "message": "turn it", "edits": [edit]},
    }
    program = tmp_path / "ruff"
    program.write_text(f"#!/bin/sh\ncat <<'END'\n{json.dumps([told])}\nEND\n")
    program.chmod(0o755)
    user = User("apply-all")
    command = [word.replace("PATH=/usr/bin", f"PATH={tmp_path}:/usr/bin") for word in bare_command]
    async with reviewing(project, user, command) as reviewer:
        turn = await reviewer.say("/fix")
    assert ("a.py", 1, "F999") in turn.findings
    assert path.read_text() == "x = (\n" and user.questions == []
    assert "nothing I can repair safely" in turn.text


async def test_a_repair_after_which_the_linter_finds_an_error_is_not_offered(
    project: Path, tmp_path: Path, write: Write, bare_command: list[str]
) -> None:
    path = write("a.py", "import os\nprint(os)\n")
    start, end = {"row": 1, "column": 1}, {"row": 2, "column": 1}
    edit = {"location": start, "end_location": end, "content": ""}
    fix = {"applicability": "safe", "message": "remove it", "edits": [edit]}
    told = {"code": "F999", "filename": str(path), "message": "an import", "location": start, "fix": fix}
    then = {"code": "F821", "filename": str(path), "message": "`os` is not there", "location": start}
    program = tmp_path / "ruff"
    program.write_text(
        f'#!/bin/sh\ncase "$*" in *--stdin-filename*) text=$(cat);; *) text=$(cat a.py);; esac\n'
        f"case $text in import*) cat <<'END'\n{json.dumps([told])}\nEND\n;;\n"
        f"*) cat <<'END'\n{json.dumps([then])}\nEND\n;; esac\n"
    )
    program.chmod(0o755)
    user = User("apply-all")
    command = [word.replace("PATH=/usr/bin", f"PATH={tmp_path}:/usr/bin") for word in bare_command]
    async with reviewing(project, user, command) as reviewer:
        turn = await reviewer.say("/fix")
    assert turn.findings == {("a.py", 1, "F999")}
    assert path.read_text() == "import os\nprint(os)\n" and user.questions == []


async def test_a_file_that_a_repair_empties_is_repaired(project: Path, write: Callable[[str, str], Path]) -> None:
    path = write("a.py", "import os\n")
    async with reviewing(project, User("apply-all")) as reviewer:
        turn = await reviewer.say("/fix")
    assert path.read_text() == "" and "Repaired 1 finding" in turn.text


async def test_lines_are_counted_at_line_feeds_alone(project: Path, write: Callable[[str, str], Path]) -> None:
    write("a.js", "let a = '\u2028\u0085'\n\x0c\n// FIXME: later\n")
    async with reviewing(project) as reviewer:
        turn = await reviewer.say("/review")
    assert turn.findings == {("a.js", 3, "fixme")}

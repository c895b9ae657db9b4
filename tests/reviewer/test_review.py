"""What is reviewed, as whose text, and how the client sees it happen."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from patience import PATIENCE

from dragoman import InvalidParams, ResourceNotFound
from dragoman import schema as s

from .conftest import Editor, User, reviewing

Write = Callable[[str, str], Path]

BAD = "import os\n"
GOOD = '"""Nothing wrong."""\n'


def git(project: Path, *words: str) -> None:
    who = ("-c", "user.name=A", "-c", "user.email=a@example.com")
    subprocess.run(["git", *who, *words], cwd=project, check=True, capture_output=True, timeout=PATIENCE)


@pytest.fixture
def repository(project: Path) -> Path:
    git(project, "init", "-q")
    (project / "old.py").write_text("import os\n\n\ndef f():\n    return 1\n")
    (project / ".gitignore").write_text("ignored.py\n")
    git(project, "add", ".")
    git(project, "commit", "-qm", "first")
    return project


# What the client sees


@pytest.mark.usefixtures("nothing_left")
async def test_the_plan_has_an_entry_per_analyser_and_each_is_a_tool_call_with_locations(
    project: Path, write: Write
) -> None:
    write("a.py", BAD)
    write("b.json", "{,}")
    write("ty.toml", "")
    async with reviewing(project) as reviewer:
        turn = await reviewer.say("/review")
    plan = turn.plans[-1]
    assert plan == dict.fromkeys(
        ["Data files", "Secrets", "Leftovers", "Encoding and size", "Ruff", "ty"], "completed"
    )
    assert set(turn.plans[0].values()) == {"in_progress"}
    reading, *analysers = turn.calls
    assert reading.kind == "read"
    assert [call.title.partition(":")[0] for call in analysers] == list(plan)
    ruff = next(call for call in analysers if call.title.startswith("Ruff"))
    assert ruff.kind == "execute"
    changes = turn.updates_of(ruff)
    assert changes[-1].status == "completed"
    assert s.ToolCallLocation(path=str(project / "a.py"), line=1) in [
        place for change in changes for place in change.locations or ()
    ]


async def test_findings_are_told_with_place_severity_and_what_to_do(project: Path, write: Write) -> None:
    write("a.py", BAD)
    async with reviewing(project) as reviewer:
        turn = await reviewer.say("/review")
    assert "- `a.py:1` warning: `os` imported but unused → drop the import (F401)" in turn.text
    assert "`/fix` can repair 1 of them" in turn.text


async def test_it_says_that_it_is_no_language_model(project: Path) -> None:
    async with reviewing(project) as reviewer:
        assert "title=" in repr(reviewer.session.client.agent_info)
        assert "no language model" in reviewer.session.client.agent_info.title
        turn = await reviewer.say("Write me a poem about tea")
    assert "no language model" in turn.text
    assert "I cannot do that" in turn.text
    assert "/review" in turn.text


async def test_the_commands_are_announced_and_the_session_gets_a_title(project: Path, write: Write) -> None:
    write("a.py", GOOD)
    async with reviewing(project) as reviewer:
        turn = await reviewer.say("/review a.py")
    commands = [u for u in turn.updates if isinstance(u, s.AvailableCommandsUpdate)]
    assert [c.name for c in commands[0].available_commands] == ["review", "fix", "explain", "todo", "help"]
    assert [u.title for u in turn.updates if isinstance(u, s.SessionInfoUpdate)] == ["Review of a.py"]


# Which files


async def test_named_files_and_directories_are_reviewed_and_no_others(project: Path, write: Write) -> None:
    for name in ("a.py", "lib/b.py", "lib/deep/c.py", "other/d.py"):
        write(name, BAD)
    async with reviewing(project) as reviewer:
        turn = await reviewer.say("/review a.py lib")
        assert {path for path, _, _ in turn.findings} == {"a.py", "lib/b.py", "lib/deep/c.py"}
        turn = await reviewer.say("Please have a look at @other/d.py")
        assert {path for path, _, _ in turn.findings} == {"other/d.py"}


async def test_a_linked_file_is_reviewed(project: Path, write: Write) -> None:
    path = write("a b.py", BAD)
    write("c.py", BAD)
    async with reviewing(project) as reviewer:
        turn = await reviewer.say(s.ResourceLink(name="a b.py", uri=path.as_uri()))
    assert turn.findings == {("a b.py", 1, "F401")}


async def test_an_attached_file_is_reviewed_as_it_was_sent(project: Path, write: Write) -> None:
    path = write("a.py", GOOD)
    attached = s.EmbeddedResource(resource=s.TextResourceContents(uri=path.as_uri(), text="\n\nimport sys\n"))
    async with reviewing(project) as reviewer:
        turn = await reviewer.say("review", attached)
    assert turn.findings == {("a.py", 3, "F401")}


async def test_what_git_ignores_is_left_out(repository: Path, write: Write) -> None:
    write("ignored.py", BAD)
    write("new.py", BAD)
    async with reviewing(repository) as reviewer:
        turn = await reviewer.say("/review")
    assert {path for path, _, _ in turn.findings} == {"old.py", "new.py"}


async def test_only_changed_lines_are_reviewed_in_a_diff(repository: Path, write: Write) -> None:
    write("old.py", "import os\n\n\ndef f():\n    return f == None\n")
    write("new.py", BAD)
    async with reviewing(repository) as reviewer:
        turn = await reviewer.say("/review diff")
    assert turn.findings == {("old.py", 5, "E711"), ("new.py", 1, "F401")}


async def test_what_a_project_chose_is_told_wherever_it_is_broken_in_a_project_as_in_a_diff(
    repository: Path, write: Write
) -> None:
    write("pyproject.toml", '[tool.ruff.lint]\nselect = ["Q"]\n')
    names = ["a.py", "b.py", "c.py", "d.py"]
    for name in names:
        write(name, "x = 'a'\ny = 'b'\nz = 'c'\n")
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "quotes")
    write("a.py", "x = 'd'\ny = 'b'\nz = 'c'\n")
    async with reviewing(repository) as reviewer:
        whole = (await reviewer.say("/review")).findings
        part = (await reviewer.say("/review diff")).findings
    assert whole == {(name, line, "Q000") for name in names for line in (1, 2, 3)}
    assert part == {("a.py", 1, "Q000")}


async def test_no_character_but_a_line_feed_hides_a_changed_line(repository: Path, write: Write) -> None:
    text = "a = '\u2028\u0085'\n\x0c\nb = 1\n"
    write("odd.py", text)
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "odd")
    write("odd.py", text + "c = '\u2028\x0c\u0085'\n# FIXME: later\n")
    async with reviewing(repository) as reviewer:
        turn = await reviewer.say("/review diff")
    assert turn.findings == {("odd.py", 5, "fixme")}


async def test_a_repository_with_workflows_is_reviewed_by_the_documented_command(
    repository: Path, write: Write
) -> None:
    write(".github/workflows/ci.yml", "on: push\non: pull_request\n")
    write(".devcontainer/devcontainer.json", "{}\n")
    for preset in ("allow-reads", "allow-all"):
        command = [sys.executable, "-m", "dragoman", "run", "--agent", "reviewer", "--permissions", preset]
        running = await asyncio.create_subprocess_exec(
            *command, "/review", cwd=repository, stdout=asyncio.subprocess.PIPE
        )
        said, _ = await running.communicate()
        assert running.returncode == 0, said
        assert b".github/workflows/ci.yml:2" in said and b"refused to read" not in said


async def test_changes_can_be_counted_from_a_commit(repository: Path, write: Write) -> None:
    write("second.py", BAD)
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "second")
    async with reviewing(repository) as reviewer:
        assert "Nothing has changed." in (await reviewer.say("/review diff")).text
        turn = await reviewer.say("/review diff HEAD~1")
        assert turn.findings == {("second.py", 1, "F401")}
        with pytest.raises(InvalidParams, match="has no commit 'no-such-commit'"):
            await reviewer.say("/review diff no-such-commit")


async def test_staged_changes_are_reviewed_as_they_are_staged(repository: Path, write: Write) -> None:
    write("new.py", "import sys\n")
    git(repository, "add", "new.py")
    write("new.py", GOOD)  # repaired since, but not staged
    write("old.py", "import json\n")  # not staged
    async with reviewing(repository) as reviewer:
        turn = await reviewer.say("/review staged")
    assert turn.findings == {("new.py", 1, "F401")}


async def test_a_diff_that_is_sent_is_reviewed_also_without_its_files(project: Path) -> None:
    diff = "diff --git a/x.sh b/x.sh\n--- a/x.sh\n+++ b/x.sh\n@@ -3,1 +3,2 @@\n old\n+# TODO: tidy\n"
    async with reviewing(project) as reviewer:
        turn = await reviewer.say(f"Review this\n{diff}")
    assert turn.findings == {("x.sh", 4, "todo")}


async def test_a_repository_cannot_have_git_run_something(repository: Path, write: Write, tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    script = write("trap.sh", f"#!/bin/sh\ntouch {trap}\n")
    script.chmod(0o755)
    for setting in ("core.fsmonitor", "diff.external", "core.pager"):
        git(repository, "config", setting, str(script))
    write("old.py", BAD * 2)
    async with reviewing(repository) as reviewer:
        for prompt in ("/review", "/review diff", "/review staged"):
            assert (await reviewer.say(prompt)).stop_reason == "end_turn"
    assert not trap.exists()


async def test_a_file_outside_the_directory_is_not_reviewed(project: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside.py"
    outside.write_text(BAD)
    (project / "link.py").symlink_to(outside)
    async with reviewing(project) as reviewer:
        for prompt in (f"/review {outside}", "/review ../outside.py", "/review link.py"):
            with pytest.raises(InvalidParams, match="is outside"):
                await reviewer.say(prompt)
        assert (await reviewer.say("/review")).findings == set()


async def test_a_file_that_is_not_there_is_named(project: Path) -> None:
    async with reviewing(project) as reviewer:
        with pytest.raises(InvalidParams, match=r"there is no nothing\.py"):
            await reviewer.say("review @nothing.py")
        assert "There is no text file to look at." in (await reviewer.say("/review")).text
        with pytest.raises(InvalidParams, match=r"That cannot be reviewed: .* is not in a Git repository"):
            await reviewer.say("/review staged")


async def test_a_name_that_is_not_unicode_is_left_out_and_told(project: Path, write: Write) -> None:
    Path(os.fsdecode(bytes(project) + b"/caf\xe9.py")).write_text(BAD)
    write("é `b`.py", BAD)
    async with reviewing(project) as reviewer:
        turn = await reviewer.say("/review")
    assert turn.findings == {("é `b`.py", 1, "F401")}
    assert "1 files whose names are not Unicode were left out" in turn.text


# Whose text


async def test_an_unsaved_buffer_counts_instead_of_the_file(project: Path, write: Write) -> None:
    unsaved = write("a.py", GOOD)
    write("b.py", BAD)
    write("ty.toml", "")
    editor = Editor()
    editor.buffers[str(unsaved)] = "x = 1\nimport json\n"
    async with reviewing(project, editor) as reviewer:
        turn = await reviewer.say("/review")
    assert ("a.py", 2, "F401") in turn.findings
    assert ("b.py", 1, "F401") in turn.findings
    assert {str(unsaved), str(project / "b.py")} <= set(editor.read)
    assert "ty reads saved files only, so it has not seen a.py" in turn.text


async def test_a_file_the_client_refuses_to_read_is_not_read_behind_its_back(project: Path, write: Write) -> None:
    class Strict(Editor):
        async def read_text_file(self, params: s.ReadTextFileRequest) -> s.ReadTextFileResponse:
            if params.path.endswith("secret.py"):
                raise ResourceNotFound("not for you")
            return await super().read_text_file(params)

    write("secret.py", BAD)
    write("a.py", BAD)
    async with reviewing(project, Strict()) as reviewer:
        turn = await reviewer.say("/review")
    assert {path for path, _, _ in turn.findings} == {"a.py"}
    assert "the client refused to read secret.py: not for you" in turn.text


async def test_binary_and_large_files_are_not_read(project: Path, write: Write) -> None:
    write("large.txt", "x" * (1024 * 1024 + 1))
    (project / "image.png").write_bytes(b"\x89PNG\0\0")
    (project / "latin.txt").write_bytes(b"fine\ncaf\xe9\n")
    editor = Editor()
    async with reviewing(project, editor) as reviewer:
        turn = await reviewer.say("/review")
    assert turn.findings == {("large.txt", 1, "large-file"), ("latin.txt", 2, "not-utf-8")}
    assert editor.read == []


# Linters of the project

FAKE = """#!/bin/sh
touch ran
cat << END
[{"filePath": "$PWD/a.js", "messages": [{"line": 2, "severity": 2, "ruleId": "no-undef", "message": "x."}]}]
END
"""


@pytest.fixture
def with_eslint(project: Path, write: Write) -> Path:
    write("eslint.config.js", "export default []\n")
    write("a.js", "var a\nx\n")
    write("node_modules/.bin/eslint", FAKE).chmod(0o755)
    return project


async def test_the_user_is_asked_before_code_of_the_project_runs(with_eslint: Path) -> None:
    user = User("skip")
    async with reviewing(with_eslint, user) as reviewer:
        turn = await reviewer.say("/review")
        assert turn.codes == set()
        assert not (with_eslint / "ran").exists()
        assert "ESLint was not run, for it runs code of the project, which was not allowed" in turn.text
        assert turn.plans[0]["ESLint"] == "pending"
        user.choices = ("session",)
        for _ in range(2):
            turn = await reviewer.say("/review")
            assert turn.findings == {("a.js", 2, "no-undef")}
    assert len(user.questions) == 2


@pytest.mark.parametrize(
    ("preset", "command", "runs"),
    [
        ("allow-reads", "/review", False),
        ("allow-reads", "/review a.js", False),
        ("allow-edits", "/fix", False),
        ("allow-all", "/review", True),
    ],
)
def test_a_linter_that_the_preset_does_not_let_run_is_left_out_and_named(
    with_eslint: Path, preset: str, command: str, runs: bool
) -> None:
    words = ["run", "--agent", "reviewer", "--permissions", preset, "--json", "--cwd", str(with_eslint), command]
    done = subprocess.run(
        [sys.executable, "-m", "dragoman", *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stdout
    events = [json.loads(line) for line in done.stdout.splitlines()]
    decided = [
        event["decision"] for event in events if event["type"] == "decision" if event["operation"] == "claim"
    ]
    assert decided == ["allow" if runs else "deny"]
    assert events[-1]["denied"] == 0
    assert (with_eslint / "ran").exists() == runs
    assert (b"ESLint was not run, for it runs code of the project, which was not allowed" in done.stdout) != runs


async def test_a_linter_that_fails_is_told_and_the_others_go_on(with_eslint: Path, write: Write) -> None:
    write("node_modules/.bin/eslint", "#!/bin/sh\necho no licence >&2\nexit 7\n")
    write("b.py", BAD)
    async with reviewing(with_eslint, User("once")) as reviewer:
        turn = await reviewer.say("/review")
    assert turn.findings == {("b.py", 1, "F401")}
    assert "ESLint failed: ESLint ended with status 7: no licence" in turn.text
    eslint = next(call for call in turn.calls if call.title.startswith("ESLint"))
    assert turn.updates_of(eslint)[-1].status == "failed"


async def test_a_program_in_the_project_does_not_pass_for_a_linter(
    project: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("bin/shellcheck", "#!/bin/sh\ntouch ran\n").chmod(0o755)
    write("a.sh", "#!/bin/sh\necho fine\n")
    monkeypatch.setenv("PATH", f"{project / 'bin'}:/usr/bin:/bin")
    async with reviewing(project) as reviewer:
        turn = await reviewer.say("/review")
    assert "ShellCheck" not in turn.plans[-1]
    assert not (project / "ran").exists()


async def test_a_cancelled_review_takes_its_linters_along(with_eslint: Path, write: Write) -> None:
    write("node_modules/.bin/eslint", "#!/bin/sh\necho $$ > news\nexec sleep 600\n")
    news = with_eslint / "news"
    os.mkfifo(news)
    async with reviewing(with_eslint, User("once")) as reviewer:

        async def cancel_once_it_runs() -> str:
            pid = await asyncio.to_thread(news.read_text)
            reviewer.session.cancel()
            return pid.strip()

        cancelling = asyncio.create_task(cancel_once_it_runs())
        turn = await reviewer.say("/review")
        assert turn.stop_reason == "cancelled"
        assert not Path(f"/proc/{await cancelling}").exists()
        eslint = next(call for call in turn.calls if call.title.startswith("ESLint"))
        assert turn.updates_of(eslint)[-1].status == "failed"
        write("node_modules/.bin/eslint", FAKE)
        assert (await reviewer.say("/review")).stop_reason == "end_turn"


# Explaining and listing


async def test_a_finding_is_explained_by_its_code_or_its_place(project: Path, write: Write) -> None:
    write("a.json", "[1,]")
    async with reviewing(project) as reviewer:
        assert "comma after the last entry" in (await reviewer.say("/explain json-trailing-comma")).text
        assert "unused-import" in (await reviewer.say("/explain F401")).text
        assert "Explain what?" in (await reviewer.say("/explain")).text
        assert "shellcheck.net/wiki/SC2086" in (await reviewer.say("/explain SC2086")).text
        await reviewer.say("/review")
        turn = await reviewer.say("/explain a.json:1")
    assert "`a.json:1` error" in turn.text
    assert "comma after the last entry" in turn.text


async def test_what_was_left_for_later_is_listed(project: Path, write: Write) -> None:
    write("a.py", "x = 1  # TODO: two\n")
    write("b.js", "// FIXME(ada): three\n")
    write("c.md", "TODO is a word here\n")
    async with reviewing(project) as reviewer:
        turn = await reviewer.say("/todo")
    assert turn.findings == {("a.py", 1, "todo"), ("b.js", 1, "fixme")}
    assert "**2 notes** left for later." in turn.text


async def test_no_finding_repeats_the_secret_it_found(project: Path, write: Write) -> None:
    secret = "kettle-on-7-days"
    write("a.py", f'password = "{secret}"\n')
    async with reviewing(project) as reviewer:
        turn = await reviewer.say("/review")
    assert turn.codes == {"secret"}
    assert secret not in repr(turn.updates)


# What nobody looked at


async def test_files_in_languages_that_nobody_here_knows_are_named(project: Path, write: Write) -> None:
    for number in range(5):
        write(f"a{number}.kt", "fun main() {}\n")
    write("b.scala", "object B\n")
    write("a.md", "# Prose has no language to know\n")
    async with reviewing(project) as reviewer:
        turn = await reviewer.say("/review a0.kt b.scala")
        everything = await reviewer.say("/review")
    assert "No analyser here knows the language" in turn.text and "Nothing found" not in turn.text
    assert "no analyser here knows the language of a0.kt, b.scala: checked for secrets" in turn.text
    assert "6 files (5 .kt and 1 .scala)" in everything.text


async def test_files_of_which_only_the_syntax_was_looked_at_are_named(project: Path, write: Write) -> None:
    for number in range(4):
        write(f"a{number}.js", "let a = 1\n")
    write("broken.rs", "fn f( {\n")
    async with reviewing(project) as reviewer:
        turn = await reviewer.say("/review")
    assert turn.findings == {("broken.rs", 1, "syntax-error")}
    assert "only the syntax was checked in 5 files (4 .js and 1 .rs)" in turn.text


async def test_what_tests_work_on_is_looked_at_for_secrets_alone_unless_it_is_named(
    project: Path, write: Write
) -> None:
    write("tests/data/a.json", '{"tea": 1,}\n')
    write("tests/data/b.py", f"import os  # TODO\nkey = 'AKIA{'Q3ZKJ5W7XN2LPV4T'}'\n")
    (project / "tests" / "data" / "latin_1.txt").write_bytes(b"caf\xe9\n")
    write("tests/c.json", '{"tea": 1,}\n')
    async with reviewing(project) as reviewer:
        everything = await reviewer.say("/review")
        directory = await reviewer.say("/review tests/data")
        file = await reviewer.say("/review tests/data/a.json")
    assert everything.findings == {("tests/data/b.py", 2, "secret"), ("tests/c.json", 1, "json-trailing-comma")}
    assert "tests work on it, so it was only searched for secrets" in everything.text
    assert directory.codes == {"json-trailing-comma", "F401", "todo", "secret", "not-utf-8"}
    assert file.findings == {("tests/data/a.json", 1, "json-trailing-comma")}


# Secrets


async def test_no_finding_repeats_a_secret_whoever_found_it(project: Path, write: Write) -> None:
    secret = "AKIA" + "Q3ZKJ5W7XN2LPV4T"
    write("a.json", f'{{"{secret}": 1, "{secret}": 2}}\n')
    write("b.py", f"# TODO: rotate {secret} soon\nd = {{'{secret}': 1, '{secret}': 2}}\n")
    write("c.yaml", f"{secret}: 1\n{secret}: 2\n")
    write("d.js", f"// FIXME: {secret}\nlet a = = {secret}\n")
    async with reviewing(project) as reviewer:
        turn = await reviewer.say("/review")
        todo = await reviewer.say("/todo")
    assert {"secret", "json-duplicate-key", "yaml-duplicate-key", "todo", "fixme", "syntax-error"} <= turn.codes
    everything = repr(turn.updates) + repr(todo.updates)
    assert secret not in everything and secret[:12] not in everything

"""What a review asks of Git: no setting changes the answers; where there are none, a sentence and a kind say why.

`test_git_table` has the states of repositories, and what must be named in each.
"""

import os
import shlex
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from patience import PATIENCE

from dragoman import Client, InvalidParams, connect

from .conftest import REVIEWER, Reviewing

BAD = "import os\n"
WHO = ("-c", "user.name=Ada", "-c", "user.email=ada@example.com", "-c", "protocol.file.allow=always")


def git(cwd: Path, *words: str) -> str:
    environ = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    done = subprocess.run(
        ["git", *WHO, *words], cwd=cwd, env=environ, check=True, capture_output=True, timeout=PATIENCE
    )
    return done.stdout.decode()


def repository(at: Path) -> Path:
    """A repository with one commit."""
    at.mkdir(parents=True, exist_ok=True)
    git(at, "init", "-q")
    (at / ".gitignore").write_text("ignored.py\n")
    (at / "old.py").write_text(BAD)
    git(at, "add", ".")
    git(at, "commit", "-qm", "first")
    return at


def changed(at: Path) -> Path:
    """Make one change that is staged, one that is not, and a new file and an ignored one."""
    (at / "staged.py").write_text(BAD)
    git(at, "add", "staged.py")
    (at / "old.py").write_text(BAD + "\nimport sys\n")
    (at / "new.py").write_text(BAD)
    (at / "ignored.py").write_text(BAD)
    return at


# States: each makes one below a directory, and gives where the session is.


def plain(at: Path) -> Path:
    return changed(repository(at))


@pytest.fixture
async def reviewer() -> AsyncIterator[Client]:
    async with connect(REVIEWER) as client:
        yield client


async def named(client: Client, cwd: Path, prompt: str) -> set[tuple[str, int]]:
    """Where a review finds something."""
    turn = await Reviewing(await client.new_session(cwd=cwd)).say(prompt)
    return {(path, line) for path, line, code in turn.findings if code == "F401"}


SETTINGS = (
    *("diff.mnemonicPrefix=true", "diff.noprefix=true", "diff.srcPrefix=x/", "diff.renames=copies"),
    *("core.quotePath=false", "color.ui=always", "diff.relative=true", "diff.context=5", "core.autocrlf=true"),
    *("diff.algorithm=patience", "status.showUntrackedFiles=no", "diff.orderFile=order", "diff.submodule=log"),
    HEEDED := "core.bigFileThreshold=1",  # which plumbing heeds: every file would be binary
)


async def test_no_setting_of_the_user_changes_which_files_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    cwd = plain(tmp_path / "project")
    (cwd / "nämé.py").write_text(BAD)
    git(cwd, "add", "nämé.py")
    monkeypatch.setenv("GIT_CONFIG_PARAMETERS", f"'{HEEDED}'")  # as `git -c` hands it on to a hook
    async with connect(REVIEWER) as client:
        for setting in SETTINGS:
            section, key, value = setting.replace("=", ".").split(".")
            (tmp_path / ".gitconfig").write_text(f"[{section}]\n\t{key} = {value}\n")
            expected = {("old.py", 3), ("staged.py", 1), ("new.py", 1), ("nämé.py", 1)}
            assert await named(client, cwd, "/review diff") == expected, setting


async def test_what_the_user_always_ignores_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine").write_text("new.py\n")
    (tmp_path / ".gitconfig").write_text("[core]\n\texcludesFile = ~/mine\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    cwd = plain(tmp_path / "project")
    async with connect(REVIEWER) as client:
        assert await named(client, cwd, "/review diff") == {("old.py", 3), ("staged.py", 1)}


async def test_a_file_in_conflict_is_reviewed_whole(reviewer: Client, tmp_path: Path) -> None:
    main = repository(tmp_path / "project")
    git(main, "checkout", "-qb", "other")
    (main / "old.py").write_text("import json\n")
    git(main, "commit", "-qam", "other")
    git(main, "checkout", "-q", "-")
    (main / "old.py").write_text("import re\n")
    git(main, "commit", "-qam", "ours")
    with pytest.raises(subprocess.CalledProcessError):
        git(main, "merge", "-q", "other")
    session = Reviewing(await reviewer.new_session(cwd=main))
    turn = await session.say("/review diff")
    assert "old.py" in {path for path, _, _ in turn.findings}
    assert "conflicts to resolve in old.py" in (await session.say("/review staged")).text


def removed(at: Path) -> None:
    (at / "old.py").unlink()


def made_executable(at: Path) -> None:
    (at / "old.py").chmod(0o755)


def made_a_link(at: Path) -> None:
    removed(at)
    (at / "old.py").symlink_to("/etc/passwd")


def shortened(at: Path) -> None:
    (at / "old.py").write_text("")


def made_binary(at: Path) -> None:
    (at / "old.py").write_bytes(b"\0" * 100)


async def test_changes_without_new_lines_are_told(reviewer: Client, tmp_path: Path) -> None:
    for change in (removed, made_executable, made_a_link, shortened, made_binary):
        main = repository(tmp_path / change.__name__)
        change(main)
        session = Reviewing(await reviewer.new_session(cwd=main))
        expected = "There are no new lines to review.\n- Note: old.py"
        assert expected in (await session.say("/review diff")).text, change.__name__
        git(main, "add", "-A")
        assert expected in (await session.say("/review staged")).text, change.__name__


async def test_no_attribute_hides_a_text_from_review(reviewer: Client, tmp_path: Path) -> None:
    main = repository(tmp_path / "project")
    (main / ".gitattributes").write_text("*.py -diff\n*.txt binary\n")
    (main / "old.py").write_text(BAD + "import sys\n")
    assert ("old.py", 2) in await named(reviewer, main, "/review diff")
    git(main, "add", "-A")
    assert ("old.py", 2) in await named(reviewer, main, "/review staged")


def no_repository(at: Path) -> Path:
    at.mkdir()
    return at


def bare(at: Path) -> Path:
    git(repository(at / "main"), "clone", "-q", "--bare", ".", str(at / "bare"))
    return at / "bare"


def shallow(at: Path) -> Path:
    main = repository(at / "main")
    (main / "old.py").write_text(BAD * 2)
    git(main, "commit", "-qam", "second")
    git(main, "clone", "-q", "--depth=1", main.as_uri(), str(at / "clone"))
    return at / "clone"


def damaged(at: Path) -> Path:
    repository(at)
    (at / ".git" / "index").write_bytes(b"no index")
    return at


def with_a_pipe_for_an_index(at: Path) -> Path:
    repository(at)
    (at / ".git" / "index").unlink()
    os.mkfifo(at / ".git" / "index")
    return at


def with_an_index_larger_than_the_disk(at: Path) -> Path:
    os.truncate(repository(at) / ".git" / "index", 2**40)
    return at


def with_a_pipe_for_a_head(at: Path) -> Path:
    repository(at)
    (at / ".git" / "HEAD").unlink()
    os.mkfifo(at / ".git" / "HEAD")
    return at


def with_a_branch_that_leads_nowhere(at: Path) -> Path:
    repository(at)
    (at / ".git" / (at / ".git" / "HEAD").read_text().split()[1]).write_text("0" * 39 + "1\n")
    return at


def incomplete(at: Path) -> Path:
    plain(at)
    tree = git(at, "rev-parse", "HEAD^{tree}").strip()
    (at / ".git" / "objects" / tree[:2] / tree[2:]).unlink()
    return at


FAILURES = [
    (no_repository, "/review diff", "no_repository", "is not in a Git repository; name files or directories"),
    (no_repository, "/review staged", "no_repository", "is not in a Git repository"),
    (bare, "/review", "bare_repository", "is a bare Git repository, which has no files"),
    (bare, "/review diff", "bare_repository", "is a bare Git repository, which has no files"),
    (plain, "/review diff no-such-branch", "unknown_revision", "has no commit 'no-such-branch'"),
    (plain, "/fix diff no-such-branch", "unknown_revision", "has no commit 'no-such-branch'"),
    (shallow, "/review diff HEAD~1", "unknown_revision", "git fetch --unshallow"),
    (damaged, "/review diff", "unreadable_repository", "Git cannot read the repository"),
    (damaged, "/review staged", "unreadable_repository", "Git cannot read the repository"),
    (with_a_pipe_for_an_index, "/review diff", "unreadable_repository", "its index is not a file"),
    (with_an_index_larger_than_the_disk, "/review diff", "unreadable_repository", "larger than 1024 MiB"),
    (with_a_pipe_for_a_head, "/review diff", "unreadable_repository", "neither a branch nor a commit"),
    (with_a_branch_that_leads_nowhere, "/review diff", "unknown_revision", "has no commit 'HEAD'"),
    (incomplete, "/review diff", "unreadable_repository", "Git cannot read the repository"),
]


async def test_what_cannot_be_reviewed_is_an_error_with_a_sentence(reviewer: Client, tmp_path: Path) -> None:
    for number, (state, prompt, kind, sentence) in enumerate(FAILURES):
        session = Reviewing(await reviewer.new_session(cwd=state(tmp_path / str(number))))
        with pytest.raises(InvalidParams) as caught:
            await session.say(prompt)
        assert (caught.value.data, state) == ({"kind": kind}, state)
        assert sentence in caught.value.message
        assert caught.value.message.startswith("That cannot be reviewed: ")


def test_what_was_not_reviewed_is_no_success(tmp_path: Path) -> None:
    run = [sys.executable, "-m", "dragoman", "run", "--agent", "reviewer", "--permissions", "allow-reads"]
    cases = [
        (no_repository, "/review diff"),
        (bare, "/review"),
        (plain, "/review diff nope"),
        (shallow, "/review diff HEAD~1"),
    ]
    for number, (state, prompt) in enumerate(cases):
        ended = subprocess.run(
            [*run, prompt], cwd=state(tmp_path / str(number)), capture_output=True, timeout=PATIENCE
        )
        assert (ended.returncode, state) == (5, state)
        assert b"That cannot be reviewed: " in ended.stderr
        assert b"Nothing" not in ended.stdout.replace(b"Nothing leaves this machine", b"")


async def test_a_damaged_repository_is_reviewed_without_git(reviewer: Client, tmp_path: Path) -> None:
    turn = await Reviewing(await reviewer.new_session(cwd=damaged(tmp_path / "damaged"))).say("/review")
    assert {path for path, _, _ in turn.findings} == {"old.py"}
    assert "ignored files are reviewed as well" in turn.text


async def test_changes_are_counted_from_where_a_branch_began(reviewer: Client, tmp_path: Path) -> None:
    main = repository(tmp_path / "project")
    git(main, "checkout", "-qb", "topic")
    (main / "topic.py").write_text(BAD)
    git(main, "add", ".")
    git(main, "commit", "-qm", "topic")
    git(main, "checkout", "-q", "-")
    (main / "later.py").write_text(BAD)
    git(main, "add", ".")
    git(main, "commit", "-qm", "later")
    base = git(main, "branch", "--show-current").strip()
    git(main, "checkout", "-q", "topic")
    assert await named(reviewer, main, f"/review diff {base}...HEAD") == {("topic.py", 1)}


def test_a_hook_of_a_commit_sees_what_is_being_committed(tmp_path: Path) -> None:
    main = repository(tmp_path / "project")
    (main / "old.py").write_text(BAD + "import sys\n")
    report = tmp_path / "report"
    run = [sys.executable, "-m", "dragoman", "run", "--agent", "reviewer", "--permissions", "allow-reads"]
    hook = main / ".git" / "hooks" / "pre-commit"
    hook.write_text(f"#!/bin/sh\n{shlex.join(run)} '/review staged' > {report} 2>&1\n")
    hook.chmod(0o755)
    git(main, "commit", "-qam", "second")
    assert "old.py:2" in report.read_text()

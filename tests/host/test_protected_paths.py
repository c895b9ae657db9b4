"""Protected paths while commands run in a sandbox, and somebody outside touches them."""

import asyncio
import os
import shutil
import signal
import struct
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from patience import PATIENCE
from users import USER, user_command

from dragoman import Agent, Turn, connect
from dragoman.host import Host
from dragoman.host.permissions.questions import Question
from dragoman.host.terminals import Terminal, TerminalLimits, Terminals, execution
from dragoman.host.terminals.keeper.gitlinks import gitlinks
from dragoman.host.terminals.keeper.protected_paths import ProtectedPaths
from dragoman.host.terminals.sandbox import covers
from dragoman.host.terminals.sandbox.covers import ALWAYS
from dragoman.host.terminals.sandbox.sandbox import Sandbox, SandboxUnavailable

pytestmark = [
    pytest.mark.usefixtures("nothing_left"),
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed"),
    pytest.mark.skipif(shutil.which("git") is None, reason="Git is not installed"),
]
EVIL = "[core]\n\tfsmonitor = touch ran\n"


@pytest.fixture
def workspace(public_directory: Path) -> Path:
    directory = public_directory / "workspace"
    subprocess.run(["git", "init", "-q", str(directory)], check=True)
    (directory / ".envrc").write_text("export A=1\n")
    (directory / ".mcp.json").write_text("{}\n")
    (directory / "file").write_text("content\n")
    give_away(directory)
    return directory


@pytest.fixture
async def terminals() -> AsyncIterator[Terminals]:
    sandbox = Sandbox()
    sandbox._escapes = []  # test_sandbox.py has its trials
    async with Terminals(limits=TerminalLimits(grace=0.2), sandbox=sandbox) as opened:
        yield opened


def give_away(directory: Path) -> None:
    if os.geteuid() == 0:
        for path in (directory, *directory.rglob("*")):
            os.chown(path, USER, USER, follow_symlinks=False)


def outside(workspace: Path, command: str) -> None:
    """What the owner of the workspace does meanwhile."""
    who = {"user": USER, "group": USER, "extra_groups": ()} if os.geteuid() == 0 else {}
    subprocess.run(["sh", "-ec", command], cwd=workspace, check=True, **who)  # type: ignore[call-overload]


async def begin(terminals: Terminals, command: str, workspace: Path) -> Terminal:
    """Start a command and wait until it says something."""
    terminal = await terminals.create("s", execution(f"echo up; {command}", cwd=str(workspace)))
    async for _ in terminal.follow():
        break
    return terminal


async def ended(terminal: Terminal) -> None:
    """Wait until nothing of a command is left."""
    async with asyncio.timeout(PATIENCE):
        await terminal.dismissed()


def names(workspace: Path) -> set[str]:
    return {str(path.relative_to(workspace)) for path in workspace.rglob("*") if ".git/objects" not in str(path)}


def aside(workspace: Path) -> list[Path]:
    return sorted(path for path in workspace.rglob("*") if ".set-aside-" in path.name)


# Where nothing is: each is one way to make something of it.
MAKING = {
    "a file": lambda path: f"mkdir -p $(dirname {path}); echo evil > {path}",
    "a directory": lambda path: f"mkdir -p {path}",
    "a link": lambda path: f"mkdir -p $(dirname {path}); ln -s /tmp {path}",
    "a renamed one": lambda path: f"mkdir -p $(dirname {path}) x; echo evil > x/evil; mv -T x {path}",
}
MISSING = [path for path in ALWAYS if path not in (".git/hooks", ".git/config", ".envrc", ".mcp.json")]


@pytest.mark.parametrize("way", MAKING)
async def test_whoever_makes_a_protected_path_is_ended_and_nothing_is_left_there(
    terminals: Terminals, workspace: Path, way: str, caplog: pytest.LogCaptureFixture
) -> None:
    before = names(workspace)
    for path in MISSING:
        terminal = await begin(terminals, f"{MAKING[way](path)}; sleep 100", workspace)
        await ended(terminal)
        assert terminal.status and terminal.status.signal == "SIGKILL", path
        assert not os.path.lexists(workspace / path), path
        assert f"{workspace}/{path} is protected" in caplog.text
        [kept] = aside(workspace)
        assert f"set aside as {kept.name}" in caplog.messages[-1]
        for made in (
            kept,
            workspace / "x",
        ):  # between mounts `mv` copies, and was ended before it removed the first
            outside(workspace, f"rm -rf {made}")
        assert names(workspace) == before, path


@pytest.mark.parametrize("make", ["git init -q .", "mkdir evil; echo 'gitdir: evil' > .git"])
async def test_a_directory_without_git_gets_none_from_inside(
    terminals: Terminals, public_directory: Path, make: str
) -> None:
    plain = public_directory / "plain"
    plain.mkdir()
    give_away(plain)
    terminal = await begin(terminals, f"{make}; sleep 100", plain)
    await ended(terminal)
    assert [path.name.split("-")[0] for path in aside(plain)] == [".git.set"]
    assert not (plain / ".git").exists()


# What exists is covered, until its owner touches it.
WAITING = "until echo evil >> {path}; do :; done 2>/dev/null; sleep 100"


def rename_over(path: str) -> str:
    return f"echo mine > {path}.new; mv {path}.new {path}"


def remove_and_make(path: str) -> str:
    """In one process: between two, what was removed may be put back, and a later save is its owner's own."""
    python = shutil.which("python3", path="/usr/bin:/bin") or sys.executable  # one that anybody can run
    return f'{python} -c \'import os; os.unlink("{path}"); print("mine", file=open("{path}", "w"))\''


@pytest.mark.parametrize("touch", [rename_over, remove_and_make])
@pytest.mark.parametrize("path", [".envrc", ".mcp.json", ".git/config"])
async def test_a_command_that_waits_for_a_cover_to_come_off_gains_nothing(
    terminals: Terminals, workspace: Path, path: str, touch: Callable[[str], str]
) -> None:
    before = (workspace / path).read_text()
    terminal = await begin(terminals, WAITING.format(path=path), workspace)
    outside(workspace, touch(path))
    await ended(terminal)
    assert (workspace / path).read_text() == before
    [kept] = aside(workspace)  # what its owner wrote is not lost
    assert kept.read_text().startswith("mine\n")
    assert kept.parent == (workspace / path).parent


async def test_git_runs_nothing_after_its_owner_has_configured_it(terminals: Terminals, workspace: Path) -> None:
    evil = f"until printf '{EVIL}' >> .git/config; do :; done 2>/dev/null; sleep 100"
    terminal = await begin(terminals, evil.replace("\n", "\\n").replace("\t", "\\t"), workspace)
    outside(workspace, "git config user.name Ann")
    await ended(terminal)
    outside(workspace, "git status")
    assert not (workspace / "ran").exists()
    assert "fsmonitor" not in (workspace / ".git" / "config").read_text()
    [kept] = aside(workspace)
    assert "name = Ann" in kept.read_text()


# A repository that the index names, by whose settings `git status` runs a program.
NEST = (
    "mkdir -p {at}; git init -q {at};"
    " git -C {at} -c user.name=a -c user.email=a@b.test commit -q --allow-empty -m x;"
    " git -C {at} config core.fsmonitor 'touch {workspace}/ran; false'"
)
NAME = "git update-index --add --cacheinfo 160000,$(git -C {at} rev-parse HEAD),{at}"
UNFETCHED = f"git update-index --add --cacheinfo 160000,{'1' * 40},{{at}}"
BARE = "mkdir -p .git/objects .git/refs; echo ref: refs/heads/main > .git/HEAD"  # no settings, and yet a repository
NESTING = {
    "a new one": ([], [NEST, NAME]),
    "one of an earlier command": ([], [NEST], [NAME]),
    "one that is named first": ([], [UNFETCHED], [NEST]),
    "named in the same file": ([], [NEST, "cp .git/index i", "GIT_INDEX_FILE=i " + NAME, "cat i > .git/index"]),
    "named in another file": ([], [NEST, NAME.replace("update-index", "update-index --split-index")]),
    "a submodule that was not fetched": ([UNFETCHED], [NEST]),
    "in a directory without git": (["rm -rf .git"], [BARE, NEST, NAME]),
}


@pytest.mark.parametrize("at", ["sub", "node_modules/sub"])
@pytest.mark.parametrize("way", NESTING)
async def test_git_runs_nothing_of_a_repository_that_a_command_has_nested(
    terminals: Terminals, workspace: Path, way: str, at: str
) -> None:
    told = {"at": at, "workspace": workspace}
    before, *commands = NESTING[way]
    outside(workspace, "git add file; " + "; ".join(before).format(**told))
    for command in commands:
        terminal = await begin(terminals, f"{'; '.join(command).format(**told)}; echo done", workspace)
        await ended(terminal)
    outside(workspace, "git status 2> status || true; git diff 2>> status || true")
    assert not (workspace / "ran").exists()


async def test_what_an_index_named_before_can_be_named_again(terminals: Terminals, workspace: Path) -> None:
    """Nor is a nested repository in the way that nothing names, as package managers make them."""
    outside(workspace, f"{NEST.format(at='sub', workspace='.')}; git add file sub 2> said")
    commands = "echo new > new; git add new; git rm -q --cached sub; git add sub"
    terminal = await begin(terminals, f"{NEST.format(at='other', workspace='.')}; {commands}", workspace)
    await ended(terminal)
    assert terminal.status and terminal.status.exit_code == 0, terminal.output()
    assert aside(workspace) == []


async def test_an_index_that_names_too_many_repositories_is_not_looked_through(
    terminals: Terminals, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(covers, "MOST_NAMED", 1)
    outside(workspace, "for n in 1 2; do git update-index --add --cacheinfo 160000," + "1" * 40 + ",sub$n; done")
    with pytest.raises(SandboxUnavailable, match="more than 1 repositories in its index"):
        await begin(terminals, "true", workspace)


def test_a_path_in_an_index_leads_nowhere_outside() -> None:
    entry = struct.pack(">6I", *[0] * 6) + (0o160000).to_bytes(4, "big") + bytes(12 + 20)
    for path in (b"../x", b"a/../../x", b"/x", b"a//x", b".", b".git/x", b""):
        named = entry + struct.pack(">H", len(path)) + path
        index = struct.pack(">4sII", b"DIRC", 2, 1) + named + bytes(8 - len(named) % 8) + bytes(20)
        assert gitlinks(index) == frozenset()
    assert gitlinks(index.replace(b"DIRC", b"DIRX")) is None


async def test_git_clean_uncovers_nothing(terminals: Terminals, workspace: Path) -> None:
    (workspace / ".git" / "info" / "exclude").unlink()
    paths = (".vscode/tasks.json", ".envrc", ".mcp.json")
    tries = "; ".join(
        f"(until test -e go; do :; done; until mkdir -p $(dirname {path}) && echo evil > {path}; do :; done) &"
        for path in paths
    ).replace("&;", "&")
    terminal = await begin(terminals, f"({tries} wait) 2>/dev/null; sleep 100", workspace)
    outside(workspace, "git clean -qfd; touch go")
    await ended(terminal)
    outside(workspace, "git clean -qfd")
    assert [path for path in paths if (workspace / path).exists()] == []


async def test_what_its_owner_writes_into_a_covered_file_stays(terminals: Terminals, workspace: Path) -> None:
    """In place: nothing comes off then."""
    outside(workspace, "mkfifo go")
    terminal = await begin(terminals, "read x < go; echo evil >> .envrc", workspace)
    outside(workspace, "echo mine >> .envrc; rm .mcp.json; echo > go")
    await ended(terminal)
    assert (workspace / ".envrc").read_text() == "export A=1\nmine\n"
    assert not (workspace / ".mcp.json").exists()
    assert aside(workspace) == []


async def test_nothing_of_ours_is_in_the_workspace_while_two_hosts_run_commands(
    terminals: Terminals, workspace: Path
) -> None:
    before = names(workspace)
    async with Terminals(sandbox=terminals.sandbox) as others:
        mine = await begin(terminals, "find . | sort; sleep 100", workspace)
        theirs = await begin(others, "sleep 100", workspace)
        assert names(workspace) == before
        await terminals.release("s", mine.id)
        assert names(workspace) == before
        last = await begin(others, "mkdir .vscode; sleep 100", workspace)
        await ended(last)
        await ended(theirs)  # it could have been this one
    assert len(aside(workspace)) == 1


def test_a_path_that_came_and_went_before_anybody_looked_has_changed(workspace: Path) -> None:
    root = os.open(workspace, os.O_PATH | os.O_DIRECTORY)
    try:
        paths = ProtectedPaths([root], [(str(workspace), [".vscode"])])
        (workspace / ".vscode").mkdir()
        (workspace / ".vscode").rename(workspace / "aside")  # as the supervisor of another command does
        assert paths.has_changed()
        assert not paths.has_changed()
        os.close(paths.fd)
        for each in paths._roots:
            os.close(each.fd)
    finally:
        os.close(root)


SWAPPING = """
import os, sys
os.chdir(sys.argv[1])
os.mkfifo("pipe")
held = os.open("pipe", os.O_RDWR)
print(flush=True)
while True:
    open("new", "w").close()
    os.rename("new", ".envrc")
    os.link("pipe", "new")
    os.rename("new", ".envrc")
"""


def test_a_pipe_in_the_place_of_a_file_that_is_looked_at_is_no_failure(workspace: Path) -> None:
    root = os.open(workspace, os.O_PATH | os.O_DIRECTORY)
    with subprocess.Popen([sys.executable, "-c", SWAPPING, str(workspace)], stdout=subprocess.PIPE) as swapping:
        try:
            assert swapping.stdout is not None
            swapping.stdout.readline()
            for _ in range(1000):
                paths = ProtectedPaths([root], [(str(workspace), [".envrc"])])
                os.close(paths.fd)
                for each in paths._roots:
                    os.close(each.fd)
        finally:
            swapping.kill()
            os.close(root)


class Writer(Agent):
    """Writes a protected file while a command of its own runs."""

    async def answer(self, turn: Turn) -> None:
        async with turn.terminal("sh", "-c", f"echo up; {WAITING.format(path='.mcp.json')}") as terminal:
            while "up" not in (await terminal.output()).output:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0)
            await turn.write(f"{turn.session.cwd}/.mcp.json", "allowed\n")
            assert (await terminal.wait()).signal == "SIGKILL"


async def test_what_the_host_was_allowed_to_write_is_what_is_there_afterwards(
    terminals: Terminals, workspace: Path, home: Path
) -> None:
    allowing = Host(preset="allow-all", asker=yes, sandbox=terminals.sandbox)
    async with connect(Writer, allowing) as client:
        session = await client.new_session(workspace)
        assert (await session.prompt("write")).stop_reason == "end_turn"
    assert (workspace / ".mcp.json").read_text() == "allowed\n"
    assert aside(workspace) == []


async def yes(question: Question) -> str | None:
    return next(option.id for option in question.options if option.allows)


HOST = """
import asyncio, sys
from dragoman.host.terminals import Sandbox, Terminals, execution

async def main():
    async with Terminals(sandbox=Sandbox()) as terminals:
        terminal = await terminals.create("s", execution(sys.argv[2], cwd=sys.argv[1]))
        async for chunk in terminal.follow():
            print(chunk.text, end="", flush=True)

asyncio.run(main())
"""


def host(workspace: Path, command: str, state: Path) -> "subprocess.Popen[str]":
    """A host of the workspace's owner, in a process of its own."""
    argv, environ = user_command(HOST, str(workspace), command)
    environ["XDG_STATE_HOME"] = str(state)
    who = {"user": USER, "group": USER, "extra_groups": ()} if os.geteuid() == 0 else {}
    return subprocess.Popen(argv, env=environ, stdout=subprocess.PIPE, text=True, **who)  # type: ignore[call-overload, no-any-return]


def test_as_a_user_it_holds_as_well(workspace: Path, public_directory: Path) -> None:
    evil = "echo up; until echo evil >> .git/config; do :; done 2>/dev/null; sleep 100"
    with host(workspace, evil, public_directory) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        outside(workspace, "git config user.name Ann")
        assert process.wait(PATIENCE) == 0
    assert "evil" not in (workspace / ".git" / "config").read_text()
    with host(
        workspace, "echo up; mkdir .vscode; echo x > .vscode/tasks.json; sleep 100", public_directory
    ) as process:
        assert process.wait(PATIENCE) == 0
    assert not (workspace / ".vscode").exists()
    assert len(aside(workspace)) == 2


async def test_a_host_that_is_killed_leaves_no_protected_path_changed(
    workspace: Path, public_directory: Path
) -> None:
    """The supervisor of the command puts everything right, and is gone when its pipe is."""
    os.mkfifo(workspace / "alive", 0o666)
    give_away(workspace)
    before = names(workspace)
    # The cover comes off, and the host is killed, both at any moment.
    command = "exec 3> alive; echo up; until mkdir .vscode/x; do mkdir .vscode; done 2>/dev/null; sleep 100"
    with host(workspace, command, public_directory) as process:
        alive = os.open(workspace / "alive", os.O_RDONLY | os.O_NONBLOCK)
        assert process.stdout is not None
        process.stdout.readline()
        os.set_blocking(alive, True)
        process.send_signal(signal.SIGKILL)
        assert os.read(alive, 1) == b""
        os.close(alive)
    async with asyncio.timeout(PATIENCE):
        while (workspace / ".vscode").exists():  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.01)
    for kept in aside(workspace):
        shutil.rmtree(kept)
    assert names(workspace) == before

"""Commands in a sandbox: what they reach, what they cannot, and that without one that holds nothing runs."""

import asyncio
import contextlib
import os
import shutil
import struct
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from ordinary import run_as_ordinary_user
from torture.host_terminals import KINDS, kill_hosts, spawn_and_end
from torture.repositories import CONTROL, GIT_DIRECTORIES, LINKS, repositories
from users import as_user

from dragoman.errors import InternalError, InvalidParams
from dragoman.foundation.places import open_place
from dragoman.host.terminals import Size, Terminal, TerminalLimits, Terminals, execution
from dragoman.host.terminals.sandbox import covers, trial
from dragoman.host.terminals.sandbox.bubblewrap import MountPlan
from dragoman.host.terminals.sandbox.covers import ALWAYS
from dragoman.host.terminals.sandbox.sandbox import Sandbox, SandboxUnavailable
from dragoman.host.terminals.sandbox.seccomp import FORBIDDEN, seccomp_filter

OWNER = (1000, 1000)


bubblewrap = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
pytestmark = pytest.mark.usefixtures("nothing_left")


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A workspace that belongs to an ordinary user, below a directory that only we can enter."""
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    directory = private / "workspace"
    directory.mkdir()
    (directory / ".git" / "hooks").mkdir(parents=True)
    (directory / ".git" / "config").write_text("[core]\n")
    (directory / "file").write_text("content\n")
    give_away(directory)
    return directory


def give_away(directory: Path) -> None:
    if os.geteuid() == 0:
        for path in (directory, *directory.rglob("*")):
            os.chown(path, *OWNER)


@pytest.fixture(scope="module")
def holding() -> Iterator[dict[str, list[str] | None]]:
    """The verdict of one trial, for all sandboxes of this module."""
    yield {}


@pytest.fixture
async def terminals(holding: dict[str, list[str] | None]) -> AsyncIterator[Terminals]:
    sandbox = Sandbox()
    sandbox._escapes = holding.get("escapes")
    async with Terminals(limits=TerminalLimits(grace=0.2), sandbox=sandbox) as opened:
        yield opened
    holding["escapes"] = sandbox._escapes


async def run(terminals: Terminals, command: str, workspace: Path, **how: object) -> Terminal:
    operation = execution(command, cwd=str(workspace))
    terminal = await terminals.create("s", operation, **how)  # type: ignore[arg-type]
    async with asyncio.timeout(20):
        await terminal.wait()
    return terminal


async def readable(fd: int) -> None:
    loop, event = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(fd, event.set)
    await event.wait()
    loop.remove_reader(fd)


def succeeded(terminal: Terminal) -> bool:
    return terminal.status is not None and terminal.status.exit_code == 0


# Without a sandbox that holds, nothing runs


async def test_without_bubblewrap_nothing_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    async with Terminals(sandbox=Sandbox()) as terminals:
        for _ in range(2):
            with pytest.raises(InternalError, match="bubblewrap is not installed") as refused:
                await terminals.create("s", execution("/usr/bin/touch", ["ran"], cwd=str(tmp_path)))
            assert refused.value.data == {"kind": "sandbox_unavailable"}
    assert os.listdir(tmp_path) == []


async def test_with_an_old_bubblewrap_nothing_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "bwrap"
    program.write_text("#!/bin/sh\necho --seccomp --size\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(SandboxUnavailable, match="--bind-fd, --disable-userns"):
        await Sandbox().check()


async def test_with_a_bubblewrap_that_does_not_wrap_nothing_runs(
    workspace: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    # not below /tmp, which is another one where it starts; the user in the sandbox has to be able to run it
    directory = tempfile.mkdtemp(prefix="bwrap-", dir="/var/tmp")
    request.addfinalizer(lambda: shutil.rmtree(directory))
    os.chmod(directory, 0o755)
    program = Path(directory, "bwrap")
    program.write_text(
        '#!/bin/sh\n[ "$1" = --help ] && exec echo --bind-fd --disable-userns --size --seccomp\n'
        'while [ "$1" != -- ]; do shift; done; shift; cd workspace; exec "$@"\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{directory}:{os.environ['PATH']}")
    async with Terminals(sandbox=Sandbox()) as terminals:
        # the latter where the user in the sandbox cannot run the interpreter of these tests
        with pytest.raises(SandboxUnavailable, match=r"can be escaped|could not be tested"):
            await terminals.create("s", execution("touch", ["ran"], cwd=str(workspace)))
    assert not (workspace / "ran").exists()


async def test_a_bubblewrap_of_the_workspace_is_not_run(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = workspace / "bwrap"
    program.write_text("#!/bin/sh\ntouch ran\n")
    program.chmod(0o755)
    monkeypatch.chdir(workspace)
    monkeypatch.setenv("PATH", f"{workspace}:{os.environ['PATH']}")
    async with Terminals(sandbox=Sandbox()) as terminals:
        with pytest.raises(SandboxUnavailable, match="bwrap lies in the workspace"):
            await terminals.create("s", execution("touch", ["ran"], cwd=str(workspace)))
    assert not (workspace / "ran").exists()


@bubblewrap
@pytest.mark.parametrize(
    ("lost", "found"),
    [
        ("processes", "the host's ipc namespace"),
        ("capabilities", "it has capabilities"),
        ("user namespaces", "it can make a user namespace"),
        ("variables", "variables that it was not given"),
        ("system calls", "the system call ptrace can be made"),
        ("protected paths", "the protected path .git/hooks can be changed"),
        ("network", "can be reached"),
        ("settings", "/etc/forbidden can be made"),
        ("logs", "/var/log can be read"),
    ],
)
async def test_a_sandbox_with_a_hole_is_found_out(lost: str, found: str, monkeypatch: pytest.MonkeyPatch) -> None:
    wrap = MountPlan.wrap

    def leaking(self: MountPlan, *args: object) -> object:
        if lost == "processes":
            self.args[self.args.index("--unshare-all")] = "--unshare-uts"
            self.args.append("--unshare-pid")
        elif lost == "capabilities":
            at = self.args.index("--cap-drop")
            self.args[at : at + 2] = ["--cap-add", "ALL"]
        elif lost == "user namespaces":
            self.args.remove("--disable-userns")
        self.args += {
            "network": ["--share-net"],
            "settings": ["--tmpfs", "/etc"],
            "logs": ["--ro-bind", "/var", "/var"],
        }.get(lost, [])
        return wrap(self, *args)  # type: ignore[arg-type]

    if lost == "protected paths":
        monkeypatch.setattr(MountPlan, "protect", lambda *_: None)
    elif lost == "variables":
        begin = MountPlan.begin
        monkeypatch.setattr(
            MountPlan, "begin", lambda plan, argv, env, *how: begin(plan, argv, env | {"LEAKED": "1"}, *how)
        )
    elif lost == "system calls":
        allowing = struct.pack("=HBBI", 6, 0, 0, 0x7FFF0000)
        monkeypatch.setattr("dragoman.host.terminals.sandbox.bubblewrap.seccomp_filter", lambda: allowing)
    else:
        monkeypatch.setattr(MountPlan, "wrap", leaking)
    with pytest.raises(SandboxUnavailable, match=found):
        await Sandbox().check()


@bubblewrap
async def test_the_trial_makes_a_hundred_attempts_and_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    reports = []
    told = trial._told
    monkeypatch.setattr(trial, "_told", lambda printed, *least: reports.append(printed) or told(printed, *least))
    sandbox = Sandbox()
    await asyncio.gather(*(sandbox.check() for _ in range(5)))
    assert len(reports) == (2 if sandbox.landlock else 1)
    assert int(reports[0].split(b'"tried": ')[1].split(b",")[0]) >= 100


@bubblewrap
async def test_a_sandbox_with_a_network_passes_its_trial_too() -> None:
    await Sandbox(network=True).check()


# What a command reaches


@bubblewrap
async def test_a_command_leaves_no_program_that_lends_its_user_s_rights(
    terminals: Terminals, workspace: Path
) -> None:
    """Whoever runs a file with such bits is its owner then, outside of every sandbox."""
    command = (
        "chmod u+s file; chmod g+s file; install -m 4755 file lent; mkdir shared; chmod 2775 shared;"
        " /usr/bin/python3 -c 'import os; os.open(\"opened\", os.O_CREAT, 0o6755)'; chmod 755 file; ls"
    )
    told = (await run(terminals, command, workspace)).output().output
    assert told.count("not permitted") == 5, told
    assert not [path for path in workspace.rglob("*") if path.stat().st_mode & 0o6000]
    assert (workspace / "file").stat().st_mode & 0o777 == 0o755


@bubblewrap
async def test_git_directories_do_not_hide_among_more_files_than_are_looked_at(
    terminals: Terminals, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (workspace / "sub" / ".git" / "hooks").mkdir(parents=True)
    for number in range(30):
        (workspace / f"file{number}").touch()
    give_away(workspace)
    assert not succeeded(await run(terminals, "echo evil > sub/.git/hooks/post-checkout", workspace))
    monkeypatch.setattr(covers, "MOST_ENTRIES", 20)
    with pytest.raises(SandboxUnavailable, match="too many to search for paths to protect"):
        await run(terminals, "echo evil > sub/.git/hooks/post-checkout", workspace)
    assert os.listdir(workspace / "sub" / ".git" / "hooks") == []


@bubblewrap
async def test_a_command_writes_in_the_workspace_as_its_owner(terminals: Terminals, workspace: Path) -> None:
    terminal = await run(terminals, "pwd; cat file; echo new > new; mkdir -p a/b; rm file; id -u", workspace)
    assert succeeded(terminal)
    owner = OWNER[0] if os.geteuid() == 0 else os.geteuid()
    assert terminal.output().output == f"{workspace}\ncontent\n{owner}\n"
    assert (workspace / "new").read_text() == "new\n"
    assert (workspace / "new").stat().st_uid == owner
    assert not (workspace / "file").exists()


@bubblewrap
async def test_a_command_sees_nothing_beside_the_workspace(terminals: Terminals, workspace: Path) -> None:
    (workspace.parent / "secret").write_text("secret")
    terminal = await run(terminals, f"ls -A .. / /home /root {workspace.parent} 2>&1; cat ../secret", workspace)
    assert "secret\n" not in terminal.output().output.replace("../secret", "")
    assert not succeeded(terminal)


@bubblewrap
async def test_a_command_has_a_home_and_a_place_for_what_is_temporary(
    terminals: Terminals, workspace: Path
) -> None:
    terminal = await run(terminals, 'cd && echo a > b && echo c > "$TMPDIR/d" && mktemp && pwd', workspace)
    assert terminal.output().output.endswith("/home/sandbox\n")
    assert not Path("/home/sandbox").exists()


@bubblewrap
async def test_a_command_has_the_variables_it_was_given(
    terminals: Terminals, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLANTED", "1")
    secret = "a value with spaces, 'quotes' and\nlines"
    operation = execution("env", ["-0"], cwd=str(workspace), env=[("LD_DEBUG_X", "1"), ("VALUE", secret)])
    terminal = await terminals.create("s", operation)
    await terminal.wait()
    variables = dict(entry.split("=", 1) for entry in terminal.output().output.split("\0") if entry)
    assert variables["VALUE"] == secret
    assert "PLANTED" not in variables


@bubblewrap
async def test_variables_are_in_nobodys_argument_list(terminals: Terminals, workspace: Path) -> None:
    operation = execution("sleep", ["100"], cwd=str(workspace), env=[("API", "my-secret-value")])
    terminal = await terminals.create("s", operation)
    lists = Path(f"/proc/{terminal.pid}/cmdline").read_bytes(), Path(f"/proc/{terminal.pid}/environ").read_bytes()
    assert not any(b"my-secret-value" in one for one in lists)


@bubblewrap
async def test_a_preloaded_library_is_not_loaded_outside(terminals: Terminals, workspace: Path) -> None:
    operation = execution("true", cwd=str(workspace), env=[("LD_PRELOAD", "/no/such/library.so")])
    terminal = await terminals.create("s", operation)
    await terminal.wait()
    # Once by `true`; the programs around it would complain as well.
    assert terminal.output().output.count("cannot be preloaded") == 1


@bubblewrap
@pytest.mark.parametrize("path", ALWAYS)
async def test_a_protected_path_that_exists_cannot_be_changed(
    terminals: Terminals, workspace: Path, path: str
) -> None:
    place = workspace / path
    if not place.exists():
        place.parent.mkdir(exist_ok=True)
        place.write_text("[a]\n")
        give_away(workspace)
    before = tree(workspace)
    top = path.split("/")[0]
    tries = [
        f"touch {path}/x",
        f"echo x > {path}",
        f"echo x >> {path}",
        f"rm -r {path}",
        f"rmdir {path}",
        f"mv {path} away",
        f"mv {top} away",
        f"ln -s /tmp {path} && test -L {path}",
        f"ln {path} link",
        f"chmod 777 {path}",
        f"mkdir other && mv -T other {path}",
        f"echo x > other2 && mv -T other2 {path}",
        f"git config core.fsmonitor x || {{ echo x > {top}; }}",
    ]
    command = "\n".join(f"({attempt}) 2> /dev/null && echo '{attempt}'" for attempt in tries)
    terminal = await run(terminals, f"{command}\nrm -rf other other2 away", workspace)
    assert terminal.output().output == ""
    await terminals.close("s")
    assert tree(workspace) == before


@bubblewrap
async def test_git_directories_below_the_workspace_cannot_be_changed(terminals: Terminals, workspace: Path) -> None:
    main = repositories(workspace.parent / "repositories")
    (main / "my.code-workspace").write_text("{}")
    (main / "lefthook.yml").write_text("")
    give_away(main.parent)
    below = [place for place in GIT_DIRECTORIES if place != ".git"]
    files = [f"{place}/{name}" for place in below for name in CONTROL]
    files += [*LINKS, "my.code-workspace", "lefthook.yml"]
    files += [".git/config", ".git/hooks/x"]
    files = [path for path in files if (main / path).exists() or not path.startswith(".git/")]
    before = tree(main)
    tries = [attempt for path in files for attempt in (f"echo x >> {path}", f"mkdir -p {path}/x", f"rm -r {path}")]
    tries += [f"mv {place} away" for place in (*below, ".git", "sub", "vendor", "data")]
    command = "\n".join(f"({attempt}) 2> /dev/null && echo '{attempt}'" for attempt in tries)
    terminal = await run(terminals, f"{command}\nrm -rf away", main)  # what cannot be renamed is copied there
    assert terminal.output().output == ""
    await terminals.close("s")
    assert tree(main) == before


@bubblewrap
async def test_the_rules_of_a_workspace_are_not_changed_from_inside(terminals: Terminals, workspace: Path) -> None:
    """Else the next run executes what they refuse."""
    (workspace / ".dragoman").mkdir()
    (workspace / ".dragoman" / "permissions.toml").write_text("[[deny]]\n")
    give_away(workspace)
    tries = ["rm -rf .dragoman", "mv .dragoman away", "echo > .dragoman/permissions.toml", "touch .dragoman/new"]
    terminal = await run(terminals, "; ".join(f"({one}) 2>/dev/null && echo '{one}'" for one in tries), workspace)
    assert terminal.output().output == ""
    assert [path.name for path in (workspace / ".dragoman").iterdir()] == ["permissions.toml"]
    assert (workspace / ".dragoman" / "permissions.toml").read_text() == "[[deny]]\n"


@bubblewrap
async def test_git_works_in_the_workspace_itself(terminals: Terminals, workspace: Path) -> None:
    main = repositories(workspace.parent / "repositories")
    give_away(main.parent)
    who = "-c user.name=a -c user.email=a@example.com"
    tries = ["echo x >> file", f"git {who} commit -qam second", "git checkout -qb topic", "git status --short"]
    tries += ["git log --oneline", f"git {who} stash -q", "git repack -adq", "git fsck"]
    terminal = await run(terminals, " && ".join(tries), main)
    assert succeeded(terminal), terminal.output().output
    assert terminal.output().output.count("second") == 1
    await terminals.close("s")


@bubblewrap
async def test_git_finds_nothing_of_ours_inside(terminals: Terminals, tmp_path: Path) -> None:
    top = tmp_path / "repository"
    subprocess.run(["git", "init", "-q", str(top)], check=True)  # noqa: ASYNC221 - nothing else runs yet
    (top / "file").write_text("content\n")
    give_away(top)
    before = sorted([*os.listdir(top), *os.listdir(top / ".git")])
    tries = ["ls -A; ls -A .git", "git config --global user.name a", "git config --global user.email a@example.com"]
    tries += ["git add file", "git commit -qm first", "touch new", "git stash -qu", "test ! -e new"]
    tries += ["git stash pop -q", "test -e new", "git clean -qfd", "test ! -e new"]
    tries += ["git branch -q topic", "git branch -qD topic", "git status --porcelain"]
    terminal = await run(terminals, " && ".join(tries), top)
    assert succeeded(terminal), terminal.output().output
    shown = terminal.output().output.splitlines()
    assert sorted(shown[: len(before)]) == before
    assert not any(line[:2] in ("??", " M", " D") for line in shown)


def tree(directory: Path) -> dict[str, tuple[int, bytes]]:
    return {
        str(path.relative_to(directory)): (path.lstat().st_mode, path.read_bytes() if path.is_file() else b"")
        for path in sorted(directory.rglob("*"))
    }


@bubblewrap
async def test_a_protected_path_that_is_a_link_cannot_be_protected(terminals: Terminals, workspace: Path) -> None:
    (workspace / ".vscode").symlink_to("/tmp")
    with pytest.raises(SandboxUnavailable, match="symbolic link"):
        await run(terminals, "true", workspace)


@bubblewrap
async def test_what_is_to_be_protected_can_be_chosen(workspace: Path) -> None:
    async with Terminals(sandbox=Sandbox(protected=["file"])) as terminals:
        assert succeeded(await run(terminals, "mkdir .vscode && git init -q sub", workspace))
        assert not succeeded(await run(terminals, "echo x > file", workspace))


@bubblewrap
async def test_more_can_be_shown_and_not_written(workspace: Path, tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "tool").write_text("#!/bin/sh\necho tool\n")
    (tools / "tool").chmod(0o755)
    async with Terminals(sandbox=Sandbox(read_only=[str(tools)])) as terminals:
        terminal = await run(terminals, f"{tools}/tool && touch {tools}/x", workspace)
        assert terminal.output().output.startswith("tool\n")
        assert not succeeded(terminal)


@bubblewrap
async def test_several_roots_can_be_written(terminals: Terminals, workspace: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    give_away(other)
    with open_place(workspace) as one, open_place(other) as another:
        terminal = await run(terminals, f"touch here {other}/there", workspace, roots=[one, another])
    assert succeeded(terminal)
    assert (other / "there").exists()


@bubblewrap
async def test_a_command_cannot_be_run_outside_the_workspace(terminals: Terminals, workspace: Path) -> None:
    with open_place(workspace) as root, pytest.raises(InvalidParams, match="not in the workspace"):
        await terminals.create("s", execution("true", cwd="/"), roots=[root])


@bubblewrap
@pytest.mark.parametrize("root", ["/", "/usr", "/etc"])
async def test_the_system_is_no_workspace(terminals: Terminals, root: str) -> None:
    with pytest.raises(SandboxUnavailable):
        await terminals.create("s", execution("true", cwd=root))


@bubblewrap
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
async def test_root_never_runs_a_command_as_root(terminals: Terminals, tmp_path: Path) -> None:
    with pytest.raises(SandboxUnavailable, match="as root"):
        await run(terminals, "true", tmp_path)
    tmp_path.chmod(0o755)
    async with Terminals(sandbox=Sandbox(user=(1234, 1234))) as others:
        terminal = await run(others, "id -u; id -g; id -G; touch x", tmp_path)
        assert terminal.output().output.startswith("1234\n1234\n1234\n")
        assert not succeeded(terminal)


@bubblewrap
async def test_an_interactive_command_has_its_terminal(terminals: Terminals, workspace: Path) -> None:
    command = (
        "stty size; read x; echo got $x; trap 'echo stopped; exit 6' INT; echo ready; while :; do sleep 0.1; done"
    )
    operation = execution(command, cwd=str(workspace), interactive=True)
    terminal = await terminals.create("s", operation, size=Size(81, 25))
    await terminal.input("hello\n")
    said = ""
    async with asyncio.timeout(10):
        async for chunk in terminal.follow():
            said += chunk.text
            if "ready" in said and "^C" not in said:
                await terminal.input("\x03")
    assert "25 81" in said
    assert "got hello" in said
    assert "stopped" in said
    assert terminal.status and terminal.status.exit_code == 6


@bubblewrap
async def test_a_signal_reaches_the_command_inside(terminals: Terminals, workspace: Path) -> None:
    operation = execution(
        "trap 'echo asked; exit 3' TERM; echo up; while :; do sleep 0.1; done", cwd=str(workspace)
    )
    terminal = await terminals.create("s", operation)
    async for _ in terminal.follow():
        break
    await terminal.kill("SIGTERM")
    status = await terminal.wait()
    assert status and status.exit_code == 3
    assert terminal.output().output.endswith("asked\n")


@bubblewrap
async def test_a_command_that_was_ended_says_by_which_signal(terminals: Terminals, workspace: Path) -> None:
    for force, name in ((False, "SIGTERM"), (True, "SIGKILL")):
        terminal = await terminals.create("s", execution("echo up; sleep 100; echo", cwd=str(workspace)))
        async for _ in terminal.follow():
            break
        await terminal.kill(force=force)
        assert terminal.status and terminal.status.signal == name


@bubblewrap
async def test_limits_hold_inside(workspace: Path) -> None:
    """However small: what makes the sandbox is not limited."""
    limits = TerminalLimits(open_files=8, file_size=512, cpu_time=7)
    async with Terminals(sandbox=Sandbox(), limits=limits) as terminals:
        told = (await run(terminals, "ulimit -n; ulimit -c; ulimit -f; ulimit -t", workspace)).output().output
        assert told == "8\n0\n1\n7\n"


@bubblewrap
async def test_a_root_that_is_renamed_while_its_sandbox_is_made_is_as_protected(workspace: Path) -> None:
    (workspace / "sub" / ".git").mkdir(parents=True)
    moved = workspace.with_name("moved")
    sandbox = Sandbox()
    with open_place(workspace) as root:
        found = await sandbox.survey([root])
        workspace.rename(moved)
        with contextlib.closing(sandbox.wrap(["true"], {}, str(moved), [root], found=found)) as wrapped:
            assert wrapped.protects(f"{moved}/sub/.git/config")


@bubblewrap
async def test_what_is_to_be_protected_does_not_lead_out_of_the_workspace(workspace: Path) -> None:
    (workspace.parent / "secret").mkdir()
    for path in ("../secret", "sub/../../secret"):
        with open_place(workspace) as root, pytest.raises(SandboxUnavailable, match="leads out of"):
            Sandbox(protected=()).wrap(["true"], {}, str(workspace), [root], found={root: [path]})


# Nothing is left


@bubblewrap
async def test_nothing_outlives_a_sandbox_however_it_ends(workspace: Path) -> None:
    await spawn_and_end(workspace, list(KINDS), cycles=12, sandbox=Sandbox())
    assert not (workspace / ".vscode").exists()


@bubblewrap
async def test_nothing_outlives_a_host_that_is_killed(workspace: Path) -> None:
    await kill_hosts(workspace, list(KINDS), cycles=1, sandboxed=True)


# What a command could tell, fill or break


@bubblewrap
async def test_the_exit_code_told_is_the_commands(terminals: Terminals, workspace: Path) -> None:
    (workspace / "forge.py").write_text(
        """
import os
import shutil
import tempfile
with open("/proc/self/maps") as maps:
    pass
for name in ("maps", "mem", "environ", "task/1/mem", "cwd", "root"):
    for flags in (os.O_RDONLY, os.O_RDWR):
        try:
            os.close(os.open(f"/proc/1/{name}", flags))
        except OSError:
            continue
        print("reached", name)
raise SystemExit(9)
"""
    )
    terminal = await run(terminals, "/usr/bin/python3 forge.py", workspace)
    assert (terminal.output().output, terminal.status and terminal.status.exit_code) == ("", 9)


@bubblewrap
async def test_no_more_memory_can_be_filled_than_the_scratch_places_hold(
    terminals: Terminals, workspace: Path
) -> None:
    probe = (
        "for place in / $(find /etc /home /run /var /dev /proc/1 /sys -xdev -type d 2>/dev/null) /usr /tmp"
        " /var/tmp /home/sandbox /dev/shm;"
        ' do touch "$place/fill" 2>/dev/null && echo "$place"; done;'
        " for place in /tmp /var/tmp /home/sandbox /dev/shm; do stat -f -c %b:%S $place; done"
    )
    told = (await run(terminals, probe, workspace)).output().output.split()
    limited = ["262144:4096"] * 4
    assert told[-4:] == limited
    assert sorted({*told[:-4]}) == ["/dev/shm", "/home/sandbox", "/tmp", "/var/tmp"]


@bubblewrap
async def test_twenty_roots_can_be_written(terminals: Terminals, workspace: Path, tmp_path: Path) -> None:
    roots = [workspace]
    for number in range(19):
        root = tmp_path / f"root{number}"
        for name in (".git/hooks", ".git/info", ".vscode", ".idea", ".cursor", ".claude", ".github/workflows"):
            (root / name).mkdir(parents=True)
        for name in (".git/config", ".git/HEAD", ".envrc", ".mcp.json", ".gitmodules"):
            (root / name).touch()
        give_away(root)
        roots.append(root)
    command = "; ".join(f"touch {root}/made; touch {root}/.git/config" for root in roots)
    with contextlib.ExitStack() as opened:
        places = [opened.enter_context(open_place(root)) for root in roots]
        terminal = await run(terminals, command, workspace, roots=places)
    assert [(root / "made").exists() for root in roots] == [True] * 20
    assert terminal.output().output.count("Read-only file system") == 20


@bubblewrap
async def test_one_failure_to_make_the_trial_is_not_the_last_word(
    workspace: Path, monkeypatch: pytest.MonkeyPatch, public_directory: Path
) -> None:
    program, failed = public_directory / "bwrap", public_directory / "failed"
    program.write_text(
        f'#!/bin/sh\n[ "$1" = --help ] || [ -e {failed} ] || {{'
        " echo bwrap: Creating new namespace failed: Resource temporarily unavailable; exit 1; }\n"
        f'exec {shutil.which("bwrap")} "$@"\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{public_directory}:{os.environ['PATH']}")
    async with Terminals(sandbox=Sandbox()) as terminals:
        with pytest.raises(
            SandboxUnavailable, match=r"this one could not be tested: bwrap: .* temporarily unavailable"
        ):
            await run(terminals, "true", workspace)
        failed.touch()
        assert succeeded(await run(terminals, "true", workspace))


@bubblewrap
@pytest.mark.parametrize("made", ["a file", "a directory"])
async def test_bubblewrap_can_write_in_the_workspace_alone_while_it_makes_the_sandbox(
    workspace: Path, monkeypatch: pytest.MonkeyPatch, public_directory: Path, made: str
) -> None:
    """It makes what it mounts on, through links that somebody puts into the workspace meanwhile, too."""
    program, others = public_directory / "bwrap", public_directory / "others"
    others.mkdir(mode=0o777)
    others.chmod(0o777)
    (workspace / ".envrc").touch()
    link = {
        "a file": f"rm .envrc; ln -s /oldroot{others}/made .envrc",
        "a directory": f"mv .git/config other; rmdir .git/hooks .git; ln -s /oldroot{others} .git",
    }[made]
    program.write_text(
        f'#!/bin/sh\nif [ "$1" != --help ]; then touch {others}/touched;\n'
        f"for place in /tmp/0 {workspace}; do [ ! -e $place/file ] || (cd $place && {link}); done; fi\n"
        f'exec {shutil.which("bwrap")} "$@"\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{public_directory}:{os.environ['PATH']}")
    async with Terminals(sandbox=Sandbox()) as terminals:
        await run(terminals, "true", workspace)
    assert os.listdir(others) == []


@bubblewrap
async def test_a_trial_that_does_not_end_says_so(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "PATIENCE", 0.001)
    async with Terminals(sandbox=Sandbox()) as terminals:
        with pytest.raises(SandboxUnavailable, match=r"its trial did not end within 0\.001 s"):
            await run(terminals, "true", workspace)


AS_USER = """
import asyncio, sys
from dragoman.host.terminals import Sandbox, SandboxUnavailable, Terminals, execution

async def main():
    async with Terminals(sandbox=Sandbox(hard_links=sys.argv[2])) as terminals:
        try:
            await terminals.create("s", execution("true", cwd=sys.argv[1]))
        except SandboxUnavailable as exc:
            print(exc.message)

asyncio.run(main())
"""


@bubblewrap
@pytest.mark.parametrize(
    ("hard_links", "sentence"),
    [
        (
            "break",
            "{}/.git cannot be looked into for names of files outside: Permission denied; change that, or allow it"
            ' with hard_links="keep"',
        ),
        ("keep", "{}/.git/commondir cannot be protected: Permission denied"),
    ],
)
def test_a_git_directory_that_cannot_be_entered_is_named(
    public_directory: Path, hard_links: str, sentence: str
) -> None:
    """As a user: root could enter it."""
    workspace = public_directory / "workspace"
    (workspace / ".git" / "info").mkdir(parents=True)
    (workspace / ".git" / "config").touch()
    (workspace / ".git").chmod(0)
    give_away(workspace)
    told = as_user(AS_USER, str(workspace), hard_links, state=public_directory)
    assert told.splitlines() == [f"commands run only in a sandbox, and {sentence.format(workspace)}"]


# The filter


def test_every_forbidden_call_has_its_own_number() -> None:
    for column in (0, 1):
        numbers = [numbers[column] for numbers in FORBIDDEN.values()]
        assert len(set(numbers)) == len(numbers)


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_there_is_a_filter_for_the_usual_machines(machine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: machine)
    program = seccomp_filter()
    assert len(program) % 8 == 0
    assert len(program) // 8 < 4096  # what the kernel takes


async def test_on_a_machine_without_a_filter_nothing_runs(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    async with Terminals(sandbox=Sandbox()) as terminals:
        with pytest.raises(SandboxUnavailable, match=r"no filter of system calls for this machine \(riscv64\)"):
            await run(terminals, "touch ran", workspace)
    assert not (workspace / "ran").exists()


@bubblewrap
async def test_a_trial_that_is_called_off_twice_leaves_nothing_behind() -> None:
    """As a session that is closed and a connection that ends call it off."""
    checking = asyncio.create_task(Sandbox().check())
    async with asyncio.timeout(30):
        while not Path(f"/proc/self/task/{os.getpid()}/children").read_text():  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0)
        checking.cancel()
        await asyncio.sleep(0)
        checking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await checking


@bubblewrap
@pytest.mark.timeout(900)
@pytest.mark.skipif(os.geteuid() != 0, reason="the tests above were an ordinary user's")
def test_bubblewrap_of_an_ordinary_user_writes_in_the_workspace_alone_too() -> None:
    run_as_ordinary_user(__file__, "-k", "alone_while")

"""Commands in a sandbox: what they reach, what they cannot, and that without one that holds nothing runs."""

import asyncio
import os
import shutil
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from torture.host_terminals import KINDS, Pulse, kill_hosts, spawn_and_end

from dragoman.errors import InternalError, InvalidParams
from dragoman.host.terminals import Limits, Size, Terminal, Terminals, execution, trial
from dragoman.host.terminals.bubblewrap import Plan
from dragoman.host.terminals.sandbox import PROTECTED, Sandbox, SandboxUnavailable
from dragoman.host.terminals.seccomp import FORBIDDEN, seccomp_filter

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
def holding() -> Iterator[dict[str, str | None]]:
    """The verdict of one trial, for all sandboxes of this module."""
    yield {}


@pytest.fixture
async def terminals(holding: dict[str, str | None]) -> AsyncIterator[Terminals]:
    sandbox = Sandbox()
    sandbox._verdict = holding.get("verdict")
    async with Terminals(limits=Limits(grace=0.2), sandbox=sandbox) as opened:
        yield opened
    holding["verdict"] = sandbox._verdict


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
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "bwrap"
    program.write_text(
        '#!/bin/sh\n[ "$1" = --help ] && exec echo --bind-fd --disable-userns --size --seccomp\n'
        'while [ "$1" != -- ]; do shift; done; shift; cd workspace; exec "$@"\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    async with Terminals(sandbox=Sandbox()) as terminals:
        with pytest.raises(SandboxUnavailable, match="does not hold"):
            await terminals.create("s", execution("touch", ["ran"], cwd=str(tmp_path)))
    assert not (tmp_path / "ran").exists()


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
    wrap = Plan.wrap

    def leaking(self: Plan, *args: object) -> object:
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
            "variables": ["--setenv", "LEAKED", "1"],
        }.get(lost, [])
        return wrap(self, *args)  # type: ignore[arg-type]

    if lost == "protected paths":
        monkeypatch.setattr(Plan, "protect", lambda *_: None)
    elif lost == "system calls":
        monkeypatch.setattr("dragoman.host.terminals.bubblewrap.seccomp_filter", lambda: None)
    else:
        monkeypatch.setattr(Plan, "wrap", leaking)
    with pytest.raises(SandboxUnavailable, match=found):
        await Sandbox().check()


@bubblewrap
async def test_the_trial_makes_a_hundred_attempts_and_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    reports = []
    told = trial._told
    monkeypatch.setattr(trial, "_told", lambda printed: reports.append(printed) or told(printed))
    sandbox = Sandbox()
    await asyncio.gather(*(sandbox.check() for _ in range(5)))
    assert len(reports) == 1
    assert int(reports[0].split(b'"tried": ')[1].split(b",")[0]) >= 100


@bubblewrap
async def test_a_sandbox_with_a_network_passes_its_trial_too() -> None:
    await Sandbox(network=True).check()


# What a command reaches


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
@pytest.mark.parametrize("path", PROTECTED)
async def test_a_protected_path_can_be_neither_changed_nor_made(
    terminals: Terminals, workspace: Path, path: str
) -> None:
    before = tree(workspace)
    top = path.split("/")[0]
    tries = [
        f"mkdir -p {path}",
        f"touch {path}/x",
        f"echo x > {path}",
        f"echo x >> {path}",
        f"rm -r {path}",
        f"rmdir {path}",
        f"mv {path} away",
        f"mv {top} away",
        f"ln -s /tmp {path}",
        f"ln {path} link",
        f"chmod 777 {path}",
        f"mkdir other && mv -T other {path}",
        f"git config core.fsmonitor x || {{ echo x > {top}; }}",
    ]
    command = "\n".join(f"({attempt}) 2> /dev/null && echo '{attempt}'" for attempt in tries)
    terminal = await run(terminals, f"{command}\nrm -rf other away", workspace)
    managed = [line for line in terminal.output().output.splitlines() if not line.startswith("mkdir -p")]
    assert managed == []
    await terminals.close("s")
    assert tree(workspace) == before


def tree(directory: Path) -> dict[str, tuple[int, bytes]]:
    return {
        str(path.relative_to(directory)): (path.lstat().st_mode, path.read_bytes() if path.is_file() else b"")
        for path in sorted(directory.rglob("*"))
    }


@bubblewrap
async def test_what_stands_for_a_missing_path_is_gone_with_its_last_user(
    terminals: Terminals, workspace: Path
) -> None:
    first = await terminals.create("s", execution("echo up; sleep 100", cwd=str(workspace)))
    second = await terminals.create("s", execution("echo up; sleep 100", cwd=str(workspace)))
    for terminal in (first, second):
        async for _ in terminal.follow():
            break
    assert (workspace / ".vscode").is_dir()
    await terminals.release("s", first.id)
    assert (workspace / ".vscode").is_dir()
    third = await run(terminals, "touch .vscode/x", workspace)
    assert not succeeded(third)
    await terminals.release("s", second.id)
    await terminals.release("s", third.id)
    assert not (workspace / ".vscode").exists()


@bubblewrap
async def test_two_hosts_in_one_workspace_do_not_uncover_each_others_paths(workspace: Path) -> None:
    async with Terminals(sandbox=Sandbox()) as mine, Terminals(sandbox=Sandbox()) as theirs:
        os.mkfifo(workspace / "go", 0o666)
        ours = await mine.create("s", execution("echo up; sleep 100", cwd=str(workspace)))
        other = await theirs.create("s", execution("echo up; read x < go; touch .vscode/x", cwd=str(workspace)))
        for terminal in (ours, other):
            async for _ in terminal.follow():
                break
        await mine.release("s", ours.id)
        assert (workspace / ".vscode").is_dir()
        (workspace / "go").write_text("go\n")
        await other.wait()
        assert not succeeded(other)
    assert list((workspace / ".vscode").iterdir()) == []


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
    fd = os.open(workspace, os.O_PATH)
    try:
        terminal = await run(terminals, f"touch here {other}/there", workspace, roots=[fd, str(other)])
    finally:
        os.close(fd)
    assert succeeded(terminal)
    assert (other / "there").exists()


@bubblewrap
async def test_a_command_cannot_be_run_outside_the_workspace(terminals: Terminals, workspace: Path) -> None:
    with pytest.raises(InvalidParams, match="not in the workspace"):
        await terminals.create("s", execution("true", cwd="/"), roots=[str(workspace)])


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
    async with Terminals(sandbox=Sandbox(), limits=Limits(open_files=23)) as terminals:
        assert (await run(terminals, "ulimit -n; ulimit -c", workspace)).output().output == "23\n0\n"


# Nothing is left


@bubblewrap
async def test_nothing_outlives_a_sandbox_however_it_ends(workspace: Path) -> None:
    await spawn_and_end(workspace, list(KINDS), cycles=12, sandbox=Sandbox())
    assert not (workspace / ".vscode").exists()


@bubblewrap
async def test_nothing_outlives_a_host_that_is_killed(workspace: Path) -> None:
    await kill_hosts(workspace, list(KINDS), cycles=1, sandboxed=True)


@bubblewrap
async def test_a_killed_host_leaves_no_placeholders(workspace: Path) -> None:
    pulse = Pulse(workspace)
    argv = [sys.executable, "-m", "torture.host_terminals", str(workspace), "--sandboxed", pulse.command("chain")]
    tests = Path(__file__).parents[1]
    async with pulse.felt() as felt, asyncio.timeout(20):
        host = await asyncio.create_subprocess_exec(*argv, cwd=tests, stderr=asyncio.subprocess.PIPE)
        try:
            await felt.begun(1)
            assert (workspace / ".vscode").is_dir()
            keeper = os.pidfd_open(int(Path(f"/proc/{host.pid}/task/{host.pid}/children").read_text()))
        finally:
            host.kill()
            await host.wait()
        await felt.ended()
        await readable(keeper)
        os.close(keeper)
    assert not (workspace / ".vscode").exists()


# The filter


def test_every_forbidden_call_has_its_own_number() -> None:
    for column in (0, 1):
        numbers = [numbers[column] for numbers in FORBIDDEN.values()]
        assert len(set(numbers)) == len(numbers)


@pytest.mark.parametrize(("machine", "known"), [("x86_64", True), ("aarch64", True), ("riscv64", False)])
def test_there_is_a_filter_for_the_usual_machines(
    machine: str, known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platform.machine", lambda: machine)
    program = seccomp_filter()
    assert (program is not None) == known
    if program:
        assert len(program) % 8 == 0
        assert len(program) // 8 < 4096  # what the kernel takes


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

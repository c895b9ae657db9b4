"""What a host promises, tried through the public client by an agent in a process of its own.

A small share of what `tests/torture/test_hosting.py` does at full size.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from test_files_paths import (
    ESCAPES,
    SECRET,
    Yard,
    exchange_with_another,
    legitimate,
    rename_and_link,
    rename_and_recreate,
)
from torture.errands import answer, answers, hosting
from torture.host_files import ATTACKS
from torture.host_permissions import Screen, trick_rules
from torture.hosting import (
    flood_beside,
    kill_lending_hosts,
    kill_writing_hosts,
    leave_commands,
    lie_about_destruction,
    read_while_swapped,
    snapshot,
)
from torture.shell_tricks import CWD, TRICKS

from dragoman.host import Host
from dragoman.host.permissions import Rules
from dragoman.host.terminals import Sandbox

pytestmark = pytest.mark.usefixtures("nothing_left")
linux = pytest.mark.skipif(sys.platform != "linux", reason="the attacker needs renameat2")

UNSENDABLE = "a lone surrogate"


def permissive(state: Path, **options: Any) -> Host:
    """Whoever is asked says yes: what stops an agent is not the permissions."""
    return Host(preset="allow-all", rules=Rules(), asker=Screen("allow_once"), audit=False, state=state, **options)


def attempts(path: str) -> list[list[Any]]:
    return [
        ["fs/read_text_file", {"path": path}],
        ["fs/write_text_file", {"path": path, "content": "taken over\n"}],
        ["_dragoman/fs/read_text_file", {"path": path}],
        ["_dragoman/fs/write_text_file", {"path": path, "content": "taken over\n"}],
        ["_dragoman/fs/read_binary_file", {"path": path}],
        ["_dragoman/fs/write_binary_file", {"path": path, "data": "AAAA"}],
        ["_dragoman/fs/list_directory", {"path": path}],
        ["_dragoman/fs/create_directory", {"path": path}],
        ["_dragoman/fs/watch", {"path": path}],
        ["_dragoman/fs/apply_edits", {"edits": [{"type": "write", "path": path, "content": "taken over\n"}]}],
        ["_dragoman/fs/apply_edits", {"edits": [{"type": "delete", "path": path}]}],
        *([["terminal/create", {"command": "touch", "args": ["taken-over"], "cwd": path}]] if path else []),
    ]


async def test_no_path_leads_an_agent_out(tmp_path: Path) -> None:
    host = permissive(tmp_path / "state")
    start = tmp_path / "start"
    start.mkdir()
    async with hosting(host, start):
        for number, (name, escape) in enumerate(ESCAPES.items()):
            if name == UNSENDABLE or (name == "a device" and os.geteuid() != 0):
                continue
            (tmp_path / str(number)).mkdir()
            yard = Yard(tmp_path / str(number))
            session = await host.new_session(yard.ws)
            with yard.close:
                path = escape(yard).replace(str(yard.top / "state"), str(tmp_path / "state"))
                before = yard.snapshot()
                for order, said in zip(attempts(path), await answers(session, attempts(path)), strict=True):
                    assert said.get("error", [0])[0] in (-32602, -32002), (name, order, said)
                assert yard.snapshot() == before, name


async def test_every_file_inside_is_there_for_an_agent(tmp_path: Path) -> None:
    yard = Yard(tmp_path)
    cases = legitimate(yard)
    assert len(cases) >= 60
    async with hosting(permissive(tmp_path / "state"), yard.ws) as session:
        for path, content in cases.items():
            assert await answer(session, "fs/read_text_file", path=path) == {"content": content}, path
            assert await answer(session, "fs/write_text_file", path=path, content=content) == {}, path
            assert Path(path).read_bytes() == content.encode(), path


async def test_a_hard_link_from_outside_is_never_written_to(tmp_path: Path) -> None:
    yard = Yard(tmp_path)
    os.link(yard.outside / "secret", yard.ws / "linked")
    async with hosting(permissive(tmp_path / "state"), yard.ws) as session:
        assert await answer(session, "fs/write_text_file", path=f"{yard.ws}/linked", content="mine") == {}
    assert (yard.ws / "linked").read_text() == "mine"
    assert (yard.outside / "secret").read_text() == SECRET


@pytest.mark.parametrize("replace", [rename_and_recreate, rename_and_link, exchange_with_another])
async def test_a_directory_put_in_the_workspace_s_place_is_not_lent(tmp_path: Path, replace: Any) -> None:
    yard = Yard(tmp_path)
    host = permissive(tmp_path / "state")
    async with hosting(host, yard.ws) as session:
        replace(yard)
        assert await answer(session, "fs/read_text_file", path=f"{yard.ws}/a.txt") == {"content": "inside\n"}
        assert await answer(session, "fs/write_text_file", path=f"{yard.ws}/new", content="") == {}
        await answer(session, "terminal/create", command="pwd -P")
        (terminal,) = host.terminals.of(session.id)
        await terminal.wait()
        assert terminal.output().output == f"{yard.top}/moved\n"
    assert (yard.top / "moved" / "new").exists()
    assert not (yard.ws / "new").exists()


@linux
@pytest.mark.parametrize("attack", ATTACKS)
async def test_no_secret_is_read_by_an_agent_while_names_are_swapped(tmp_path: Path, attack: str) -> None:
    counts = await read_while_swapped(tmp_path, 1_000, ATTACKS[attack])
    assert counts["leaked"] == 0
    assert counts["read"] > 0, "what is inside can be read in between"
    assert counts["refused"] > 0, "the attacker was there"


async def test_five_hundred_lies_are_a_thousand_questions(tmp_path: Path) -> None:
    """Each is a claim under a harmless name, and the destruction that follows it."""
    assert await lie_about_destruction(tmp_path, 500) == (1_000, 0)


async def test_no_trick_with_a_shell_passes_for_a_command_that_is_allowed(project: Path, home: Path) -> None:
    host = Host(rules=trick_rules(home))
    before = snapshot(project)
    orders = []
    for trick in TRICKS:
        as_text = trick.shell and " " in trick.argv[-1]
        command, *args = trick.argv[-1:] if as_text else trick.argv
        if [command, *args] in (["npm test"], ["npm", "test"]) and trick.cwd == CWD and not trick.env:
            continue  # no agent can send what is wrong with these: what is left is what a rule allows
        env = [{"name": name, "value": value} for name, value in trick.env]
        cwd = trick.cwd.replace(CWD, str(project))
        orders.append(["terminal/create", {"command": command, "args": args, "env": env, "cwd": cwd}])
    async with hosting(host, project) as session:
        said = await answers(session, orders)
        assert [order for order, one in zip(orders, said, strict=True) if "result" in one] == []
        assert host.terminals.of(session.id) == []
        refused = [one for one in said if one["error"][1] == "not_permitted"]
        assert len(refused) > 0.9 * len(TRICKS), "the rest cannot be run at all"
    assert snapshot(project) == before


async def test_what_is_refused_leaves_everything_as_it_was(project: Path) -> None:
    screen = Screen("reject_once")
    host = Host(asker=screen)
    path = f"{project}/a.txt"
    orders = [
        *(order for order in attempts(path) if "cwd" not in order[1]),
        *(order for order in attempts(f"{project}/new/deep/file") if "cwd" not in order[1]),
        ["terminal/create", {"command": "touch", "args": ["new"]}],
        ["terminal/create", {"command": "rm -f a.txt; touch new"}],
        ["_dragoman/terminal/create", {"command": "touch new", "size": {"columns": 80, "rows": 24}}],
    ]
    async with hosting(host, project) as session:
        before = snapshot(project)
        said = await answers(session, orders)
        assert [one for one in said if "result" in one] == []
        assert snapshot(project) == before
    assert len(screen.seen) > 10


@pytest.mark.parametrize("ending", ["session", "agent", "connection"])
async def test_commands_end_with_their_session_their_agent_and_their_connection(project: Path, ending: str) -> None:
    await leave_commands(project, ending, cycles=1)


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
async def test_nothing_at_all_outlives_a_sandboxed_session(project: Path) -> None:
    if os.geteuid() == 0:
        os.chown(project, 1000, 1000)
    await leave_commands(project, "session", cycles=1, sandbox=Sandbox())


async def test_commands_end_when_their_host_is_killed(project: Path) -> None:
    await kill_lending_hosts(project, cycles=1)


async def test_output_without_end_is_kept_to_its_limit(tmp_path: Path) -> None:
    _, kept, memory = await flood_beside(tmp_path, seconds=0.4, limit=1024 * 1024)
    assert kept == 1024 * 1024
    assert memory < 8 * 1024 * 1024


@pytest.mark.parametrize("role", ["overwrite", "edit"])
async def test_a_killed_host_leaves_everything_old_or_new(tmp_path: Path, role: str) -> None:
    assert await kill_writing_hosts(tmp_path, role, kills=3, longest=0.3) > 0


def _remove(lines: list[str]) -> list[str]:
    return [*lines[:2], *lines[3:]]


def _change(lines: list[str]) -> list[str]:
    return [*lines[:2], lines[2].replace("file_write", "file_read"), *lines[3:]]


def _reorder(lines: list[str]) -> list[str]:
    return [*lines[:2], lines[3], lines[2], *lines[4:]]


def verdict(log: Path) -> tuple[int, str]:
    """What the command line says of a log."""
    command = [sys.executable, "-m", "dragoman", "audit", str(log), "--verify"]
    process = subprocess.run(command, capture_output=True, text=True)
    return process.returncode, process.stdout + process.stderr


@pytest.mark.parametrize("spoil", [_remove, _change, _reorder])
async def test_a_spoilt_audit_log_is_found_out_by_the_command_line(project: Path, spoil: Any) -> None:
    host = Host(preset="allow-edits")
    async with hosting(host, project) as session:
        orders = [["fs/write_text_file", {"path": f"{project}/{i}", "content": ""}] for i in range(6)]
        assert {json.dumps(said) for said in await answers(session, orders)} == {'{"result": {}}'}
    assert host.audit
    assert verdict(host.audit.path)[0] == 0
    lines = host.audit.path.read_text().splitlines()
    host.audit.path.write_text("\n".join(spoil(lines)) + "\n")
    status, said = verdict(host.audit.path)
    assert status != 0
    assert f"{host.audit.path.name}:3: " in said

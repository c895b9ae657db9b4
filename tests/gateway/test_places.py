"""A session's directory is opened once, beneath its principal's own: swapping it for a link gives nothing."""

import asyncio
import json
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from ordinary import run_as_ordinary_user
from patience import PATIENCE

from dragoman.errors import RpcError
from dragoman.gateway.access.checks import Checks
from dragoman.gateway.access.workspaces import Workspaces

from .house import House, Watcher, hosting

pytestmark = pytest.mark.usefixtures("nothing_left")
bubblewrap = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")

OWNER = (1000, 1000)
AGENT = ["/usr/bin/python3", "-c", Path(__file__).with_name("thief.py").read_text()]


def furnished(top: Path) -> Path:
    """Two people's directories, each with a canary, and one of the gateway's beside them."""
    work = top / "work"
    for name in ("ann", "bob"):
        (work / name / "project").mkdir(parents=True)
        (work / name / "note.txt").write_text(f"canary of {name}")
        (work / name / "project" / "note.txt").write_text(f"canary of {name}'s project")
        (work / name).chmod(0o700)
    if os.geteuid() == 0:
        for path in work.rglob("*"):
            os.chown(path, *OWNER)
    (top / "state").mkdir(mode=0o700)
    (top / "state" / "note.txt").write_text("canary of the gateway")
    return work


@asynccontextmanager
async def people(top: Path, **options: Any) -> AsyncIterator[tuple[House, Watcher, Watcher]]:
    work = options.pop("work", None) or top / "work"
    checks = Checks(workspace=str(work / "{principal}"))
    hosted = {"isolated": True, "sandbox": True, "env": {"PATH": "/usr/bin:/bin"}, **options}
    async with (
        hosting(top / "state", AGENT, hosted=hosted, checks=checks) as house,
        house.visit("ann") as ann,
        house.visit("bob") as bob,
        asyncio.timeout(4 * PATIENCE),
    ):
        yield house, ann, bob


async def told(watcher: Watcher, session: Any, *steps: list[Any]) -> str:
    """What a prompt's steps gave."""
    before = len(watcher.told.get(session.id, []))
    await session.prompt(json.dumps(steps))
    return b"".join(watcher.told[session.id][before:]).decode()


def attempts(cwd: Path) -> list[list[Any]]:
    """All ways to what a session's directory holds: through the host, and from the agent's own process."""
    return [
        ["call", "fs/read_text_file", {"path": f"{cwd}/note.txt"}],
        ["call", "_dragoman/fs/list_directory", {"path": str(cwd)}],
        ["call", "fs/write_text_file", {"path": f"{cwd}/stolen.txt", "content": "was here"}],
        ["call", "terminal/create", {"command": "cat", "args": ["note.txt"], "cwd": str(cwd)}],
        ["call", "terminal/create", {"command": f"cat {cwd}/note.txt; touch {cwd}/stolen.txt", "cwd": str(cwd)}],
        ["sh", f"cat {cwd}/note.txt; touch {cwd}/stolen.txt"],
    ]


TARGETS = ["../bob", "{work}/bob", "../../state", "{top}/state", "../../..", "/proc/1/root{work}/bob", "/"]


@bubblewrap
@pytest.mark.parametrize("way", ["cwd", "additional"])
async def test_an_agent_that_swaps_its_directory_for_a_link_gets_nothing(way: str, tmp_path: Path) -> None:
    work = furnished(tmp_path)
    async with people(tmp_path) as (_, ann, _):
        home = await ann.new_session(work / "ann")
        for number, target in enumerate(TARGETS):
            project = work / "ann" / f"p{number}"
            await told(ann, home, ["sh", f"mkdir {project}; echo own > {project}/note.txt"])
            link = target.format(work=work, top=tmp_path)
            (work / "ann" / ".on-open").write_text(f"mv {project} {project}.old; ln -s {link} {project}")
            if way == "cwd":
                session = await ann.new_session(project)
            else:
                session = await ann.new_session(work / "ann", additional_directories=[project])
            (work / "ann" / ".on-open").unlink()
            assert project.is_symlink()
            said = await told(ann, session, *attempts(project))
            assert "canary" not in said.replace("canary of ann", ""), target
            await ann.close_session(session.id)
    assert not list(tmp_path.rglob("bob/**/stolen.txt"))
    assert not (tmp_path / "stolen.txt").exists()
    assert not (tmp_path / "state" / "stolen.txt").exists()


@bubblewrap
async def test_a_directory_that_was_swapped_before_a_restart_is_not_lent(tmp_path: Path) -> None:
    work = furnished(tmp_path)
    project = work / "ann" / "project"
    async with people(tmp_path) as (_, ann, _):
        session = await ann.new_session(project)
        assert "ann's project" in await told(ann, session, *attempts(project))
        with pytest.raises(RpcError):
            await session.prompt(
                json.dumps([["sh", f"mv {project} {project}.old; ln -s ../bob {project}"], ["die"]])
            )
        assert project.is_symlink()
        with pytest.raises(RpcError, match="not in your workspace"):
            await session.prompt(json.dumps(attempts(project)))
        project.unlink()
        project.with_name("project.old").rename(project)
        assert "ann's project" in await told(ann, session, *attempts(project))
        assert "of bob" not in b"".join(ann.told[session.id]).decode()
    assert not (work / "bob" / "stolen.txt").exists()


@bubblewrap
@pytest.mark.parametrize("which", ["workspace", "principal", "inside"])
async def test_a_linked_workspace_is_the_directory_it_leads_to(which: str, tmp_path: Path) -> None:
    work = furnished(tmp_path)
    if which == "workspace":
        (tmp_path / "link").symlink_to("work")
        work = tmp_path / "link"
    elif which == "principal":
        (tmp_path / "elsewhere").mkdir()
        (work / "ann").rename(tmp_path / "elsewhere" / "ann")
        (work / "ann").symlink_to(tmp_path / "elsewhere" / "ann")
    else:
        (work / "ann" / "project").rename(work / "ann" / "real")
        (work / "ann" / "project").symlink_to(work / "ann" / "real")
    project = work / "ann" / "project"
    async with people(tmp_path, work=work) as (_, ann, _):
        session = await ann.new_session(project)
        said = json.loads(
            json.loads(await told(ann, session, *attempts(project)))["params"]["update"]["content"]["text"]
        )
        assert [step for step in said if "ann's project" in str(step)] == [said[0], said[3], said[4], said[5]]
        listed = [entry.cwd for entry in await ann.list_sessions()]
        assert listed == [str(project)]


@bubblewrap
async def test_what_is_visible_through_a_link_is_found_under_both_of_its_paths(tmp_path: Path) -> None:
    work = furnished(tmp_path)
    tools = tmp_path / "versions" / "7"
    tools.mkdir(parents=True)
    (tools / "tool").write_text("#!/bin/sh\necho the tool\n")
    (tools / "tool").chmod(0o755)
    (tmp_path / "tools").symlink_to("versions/7")
    async with people(tmp_path, visible=[str(tmp_path / "tools")]) as (_, ann, _):
        session = await ann.new_session(work / "ann")
        said = await told(ann, session, ["sh", f"{tmp_path}/tools/tool; {tools}/tool; touch {tools}/x"])
        assert said.count("the tool") == 2
        assert "Read-only file system" in said


def odd_names() -> list[str]:
    """What somebody may be called, or call a directory, besides an ordinary word."""
    long = ["a" * 255, "a" * 256, "é" * 127, "é" * 128, "a" * 4096, "a" * 70_000]
    halves = ["\ud800", "a\udc80", "\udcc3\udca9", "a\ud800b", "\udfff"]
    odd = (*range(33), *range(127, 134), 0x200B, 0x2028, 0x202E, 0x2066, 0xE000, 0xFEFF, 0x10FFFF)
    controls = [chr(number) for number in odd]
    paths = [
        ".",
        "..",
        "...",
        ".ssh",
        "/",
        "//",
        "../bob",
        "a/../../bob",
        "a/b",
        "\\",
        "a\\b",
        "~",
        "~root",
        "-rf",
        "*",
        "$HOME",
    ]
    words = [
        "{principal}",
        "{0}",
        "%s",
        "%00",
        "NUL",
        "con",
        "ann ",
        " ann",
        "ANN",
        "a:b",
        "a;b",
        "a'b",
        'a"b',
        "ñ",
        "n\u0303",
    ]
    return ["", *long, *halves, *controls, *paths, *words, "👩‍👩‍👧", "a\n/b", "x" * 100 + "/" + "y" * 300]


def test_odd_principals_and_paths_are_answered(tmp_path: Path) -> None:
    assert len(odd_names()) >= 92
    workspaces = Workspaces(str(tmp_path / "work" / "{principal}" / "x"))
    workspaces.hold()
    roots: dict[tuple[int, int], str] = {}
    try:
        workspaces.root("ann").close()
        for name in odd_names():
            try:
                with workspaces.root(name) as root:
                    status = os.fstat(root.fd)
                    assert root.path == f"{tmp_path}/work/{name}/x"
                    assert roots.setdefault((status.st_dev, status.st_ino), name) == name
            except RpcError as exc:
                assert exc.code == -32602
            for path in (name, f"/{name}", f"{tmp_path}/work/ann/x/{name}", f"{tmp_path}/work/ann/x/{name}/.."):
                try:
                    with workspaces.open("ann", path) as place:
                        assert place.path == f"{tmp_path}/work/ann/x"
                except RpcError as exc:
                    assert exc.code == -32602
    finally:
        workspaces.close()


@pytest.mark.timeout(900)
@pytest.mark.skipif(os.geteuid() != 0, reason="this is run as an ordinary user")
def test_all_of_this_holds_for_an_ordinary_user() -> None:
    run_as_ordinary_user(__file__, "-k", "cwd or restart or visible or odd")

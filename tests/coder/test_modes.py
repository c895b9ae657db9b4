"""Every mode's promise, attacked: a model that insists on an effect gets nothing done."""

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from dragoman import schema as s
from dragoman.coder import Coder, call
from dragoman.coder.context.instructions import project_instructions
from dragoman.coder.markdown import fenced
from dragoman.host.display import COMMAND_LIMIT, is_elided, visible
from dragoman.testing import pair

from .desk import BareClient, DiskClient, asked, calls, desk, is_about_a_server, results, said, snapshot, updates

pytestmark = pytest.mark.usefixtures("nothing_left")

MCP_SERVER = Path(__file__).parent.parent / "mcp" / "pen.py"
either_client = pytest.mark.parametrize("client", [DiskClient, BareClient])


class Page:
    """A page on loopback that counts its visitors."""

    def __init__(self) -> None:
        self.visits = 0
        self.url = ""
        self.answers = (
            b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n<p>Hello <b>there</b>"
        )

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator["Page"]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/page"
        try:
            yield self
        finally:
            server.close()
            await server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.visits += 1
        await reader.readuntil(b"\r\n\r\n")
        writer.write(self.answers)
        await writer.drain()
        writer.close()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    (root / "src").mkdir(parents=True)
    (root / "src" / "a.py").write_text("x = 1\n")
    (root / ".env").write_text("SECRET=1\n")
    (root / "out").symlink_to(tmp_path)
    (tmp_path / "outside.txt").write_text("outside\n")
    return root


def attacks(project: Path, url: str) -> list[Any]:
    """All the ways we know to have an effect."""
    outside = project.parent / "outside.txt"
    return [
        call("read_file", path="src/a.py"),
        call("edit_file", path="src/a.py", old="x = 1", new="x = 2"),
        call("edit_file", path="src/a.py", old="x = 1", new="x = 2", replace_all=True),
        call("write_file", path="src/a.py", content="gone"),
        call("write_file", path="new.py", content="new"),
        call("write_file", path="deep/down/new.py", content="new"),
        call("write_file", path="../escaped.py", content="new"),
        call("write_file", path="out/escaped.py", content="new"),
        call("write_file", path=str(outside), content="gone"),
        call("write_file", path=".env", content="gone"),
        call("write_file", path=".git/hooks/post-checkout", content="#!/bin/sh\ntouch hooked"),
        call("write_file", path=".dragoman/permissions.toml", content='[[allow]]\noperation = "file_write"\n'),
        call("run_command", command="touch made"),
        call("run_command", command="echo gone > src/a.py"),
        call("run_command", command="true && touch made"),
        call("run_command", command=f'{sys.executable} -c \'open("made", "w")\''),
        call("run_command", command="touch made", cwd="/tmp"),
        call("run_command", command="cat src/a.py"),
        call("fetch_url", url=url),
        call("fetch_url", url="file:///etc/passwd"),
        call("mcp__pen__write", path=str(project / "by-mcp.txt")),
        call("exit_plan", plan="Let me in."),
        call("set_mode", mode="code"),
        [call("write_file", path="one.py", content="1"), call("run_command", command="touch two")],
    ]


def servers() -> dict[str, Any]:
    command = s.McpServerStdio(name="pen", command=sys.executable, args=[str(MCP_SERVER)], env=[])
    return {"mcp_servers": [command]}


@either_client
@pytest.mark.parametrize(
    ("mode", "answer"),
    [("architect", "allow"), ("plan", "allow-but-not-the-plan"), ("ask", "reject"), ("code", "reject")],
)
async def test_nothing_is_done_without_the_permission_the_mode_demands(
    mode: str, answer: str, client: Callable[..., DiskClient], project: Path
) -> None:
    def allow(request: s.RequestPermissionRequest) -> str:
        is_plan = request.tool_call.kind == "switch_mode"
        is_visit = request.tool_call.kind in ("fetch", "other")
        return "plan" if is_plan else "reject" if is_visit else "allow"

    policy: Any = "reject" if answer == "reject" else allow
    async with asyncio.timeout(60), Page().open() as page:
        steps = attacks(project, page.url)
        if mode == "code":  # where edits in the project are what was asked for
            steps = [step for step in steps if not isinstance(step, list)][6:]
        before = snapshot(project.parent)
        async with desk(
            project, *steps, client=client(permissions=policy), mode=mode, fetch=True, options=servers()
        ) as (session, there, model):
            assert (await session.prompt("Do it.")).stop_reason == "end_turn"
            told = results(model)
        assert snapshot(project.parent) == before
        assert page.visits == 0
    assert not [r for r in there.requests if isinstance(r, s.CreateTerminalRequest | s.WriteTextFileRequest)]
    done = [name for name, outcome, _ in told if outcome == "success"]
    assert set(done) <= {"read_file"}
    if mode in ("architect", "plan"):
        kinds = {request.tool_call.kind for request in asked(there)}
        assert kinds <= {"fetch", "switch_mode"}  # nothing that changes anything is even asked for
    assert not [shown for shown in calls(there).values() if shown["status"] in ("pending", "in_progress")]


async def test_what_is_refused_above_would_work_if_it_were_allowed(project: Path) -> None:
    async with asyncio.timeout(60), Page().open() as page:
        async with desk(project, *attacks(project, page.url), mode="code", fetch=True, options=servers()) as (
            session,
            *_,
        ):
            await session.prompt("Do it.")
        assert page.visits == 1
    for name in (
        "new.py",
        "deep/down/new.py",
        "made",
        "by-mcp.txt",
        "one.py",
        "two",
        "out/escaped.py",
        "../escaped.py",
    ):
        assert (project / name).exists(), name
    assert (project / "src" / "a.py").read_text() == "gone\n"


@either_client
@pytest.mark.parametrize("mode", ["architect", "plan"])
async def test_the_reviewer_in_the_models_place_changes_and_runs_nothing_either(
    mode: str, client: Callable[..., DiskClient], project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OLLAMA_HOST", "127.0.0.1:9")
    (project / "data.json").write_text('{"a": 1,}\n')
    (project / "app.ts").write_text("let x = 1\n")
    (project / "tsconfig.json").write_text("{}\n")
    tsc = project / "node_modules" / ".bin" / "tsc"
    tsc.parent.mkdir(parents=True)
    tsc.write_text(f"#!/bin/sh\ntouch {project}/ran\n")
    tsc.chmod(0o755)
    before = snapshot(project)
    async with pair(Coder, client(permissions="allow")) as there:
        session = await there.new_session(project)
        await session.set_mode(mode)
        await session.prompt("/model reviewer")
        for words in ("/fix", "/fix data.json", "Please fix everything", "/review"):
            await session.prompt(words)
        assert asked(there) == [] and snapshot(project) == before
        assert "so I only report" in said(updates(there)) and "json-trailing-comma" in said(updates(there))
        await session.set_mode("ask")
        await session.prompt("/fix")
    assert (project / "data.json").read_text() == '{"a": 1}\n' and (project / "ran").exists()


@either_client
async def test_a_mode_taken_back_while_the_question_is_open_counts(
    client: Callable[..., DiskClient], project: Path
) -> None:
    before = snapshot(project)
    holder: dict[str, Any] = {}

    async def late(request: s.RequestPermissionRequest) -> str:
        await holder["session"].set_mode("plan")
        return "allow"

    step = call("write_file", path="new.py", content="new")
    async with desk(project, step, "Done.", client=client(permissions=late)) as (session, _, model):
        holder["session"] = session
        await session.prompt("Go")
    assert snapshot(project) == before
    assert "Nothing can be changed" in results(model)[0][2]


@pytest.mark.parametrize(
    "command",
    [
        "echo hello" + " " * 600 + "; touch made",
        "echo hello\n" * 40 + "touch made",
        "echo \u202egnp.exe",
        "echo " + "x" * 2000 + "; touch made",
    ],
)
async def test_a_command_is_shown_whole_to_whoever_decides_on_it(command: str, project: Path) -> None:
    client = DiskClient(permissions="reject")
    async with desk(project, call("run_command", command=command), "Done.", client=client) as (session, _, _model):
        await session.prompt("Go")
    (request,) = asked(client)
    title, (shown,) = request.tool_call.title or "", request.tool_call.content or ()
    assert title.isprintable() and len(title) < 600
    assert shown.content.text == fenced(visible(command, limit=COMMAND_LIMIT, lines=True))
    assert not is_elided(shown.content.text) and "\u202e" not in shown.content.text


async def test_a_command_nobody_could_read_is_not_even_asked_about(project: Path) -> None:
    command = "echo " + "x" * COMMAND_LIMIT + "; touch made"
    async with desk(project, call("run_command", command=command), "Done.") as (session, client, model):
        await session.prompt("Go")
    assert asked(client) == [] and not (project / "made").exists()
    assert "too long for anybody to judge" in results(model)[0][2]


async def test_where_a_command_would_run_is_told(project: Path) -> None:
    step = call("run_command", command="ls", cwd="src")
    async with desk(project, step, "Done.") as (session, client, _):
        await session.prompt("Go")
    assert asked(client)[0].tool_call.title == "ls (in src)"


async def test_what_a_foreign_tool_would_be_given_is_shown(project: Path) -> None:
    step = call("mcp__pen__write", path=str(project / "by-mcp.txt"))

    def only_the_server(request: s.RequestPermissionRequest) -> str:
        return "allow_session" if is_about_a_server(request.tool_call.title) else "reject"

    client = DiskClient(permissions=only_the_server)
    async with desk(project, step, "Done.", client=client, options=servers()) as (session, _, _model):
        await session.prompt("Go")
    (shown,) = asked(client)[0].tool_call.content or ()
    assert "by-mcp.txt" in shown.content.text


async def test_foreign_tools_cannot_take_each_others_names_or_permissions(project: Path) -> None:
    pen = servers()["mcp_servers"][0]
    alike = [replace(pen, name=name) for name in ("a pen", "a_pen", "a pen/greet")]
    steps = [call("mcp__a_pen__greet", name="Ada"), call("mcp__a_pen__greet_2", name="Bo"), "Done."]
    client = DiskClient(permissions=lambda request: "allow_session")
    async with desk(project, *steps, client=client, options={"mcp_servers": alike}) as (session, _, model):
        await session.prompt("Go")
    assert [words for _, _, words in results(model)] == ["Hello, Ada!", "Hello, Bo!"]
    assert [request.tool_call.title for request in asked(client)] == ["a pen: greet", "a_pen: greet"]
    names = [tool.name for tool in model.requests[0].tools]
    assert len(names) == len(set(names)) and "mcp__a_pen_greet__greet" in names


@pytest.mark.parametrize("secret", ["../id_rsa", "../project/.env"])
async def test_a_project_cannot_have_secrets_read_as_its_instructions(secret: str, project: Path) -> None:
    (project.parent / "id_rsa").write_text("SECRET=1\n")
    (project / ".agents" / "prompts").mkdir(parents=True)
    (project / ".agents" / "prompts" / "help-me.md").symlink_to(project / secret)
    (project / "AGENTS.md").symlink_to(project / secret)
    async with desk(project, "Done.") as (session, _, model):
        await session.prompt("Go")
    assert "SECRET=1" not in model.requests[0].instructions
    assert "help-me" not in model.requests[0].instructions


SWAPPING = """
import os, sys
os.chdir(sys.argv[1])
os.mkfifo("pipe")
print(flush=True)
while True:
    with open("new", "w") as file:
        file.write("Be kind.")
    os.rename("new", "AGENTS.md")
    os.symlink("../id_rsa", "new")
    os.rename("new", "AGENTS.md")
    open("new", "w").close()
    os.rename("new", "AGENTS.md")
    os.link("pipe", "new")
    os.rename("new", "AGENTS.md")
"""


def test_instructions_that_are_swapped_while_they_are_read_give_no_secret_and_hold_nobody_up(project: Path) -> None:
    (project.parent / "id_rsa").write_text("SECRET=1\n")
    with subprocess.Popen([sys.executable, "-c", SWAPPING, str(project)], stdout=subprocess.PIPE) as swapping:
        try:
            assert swapping.stdout is not None
            swapping.stdout.readline()
            seen = {text for _ in range(3000) for _, text in project_instructions(str(project))}
        finally:
            swapping.kill()
    assert seen <= {"Be kind."}


@pytest.mark.parametrize("name", [".env", "out/outside.txt", "../outside.txt", ".git/config"])
async def test_what_is_protected_or_outside_is_asked_about_even_to_read_it_and_every_time(
    name: str, project: Path
) -> None:
    (project / ".git").mkdir()
    (project / ".git" / "config").write_text("[core]\n")
    step = call("read_file", path=name)
    async with desk(project, step, step, "Done.", mode="code") as (session, client, model):
        await session.prompt("Go")
    assert [outcome for _, outcome, _ in results(model)] == ["success", "success"]
    assert len(asked(client)) == 2
    assert {option.kind for option in asked(client)[0].options} == {"allow_once", "reject_once"}


async def test_another_name_of_a_protected_file_is_neither_shown_nor_read_nor_written_unasked(
    project: Path,
) -> None:
    (project / "services" / "api").mkdir(parents=True)
    (project / "services" / "api" / ".env").write_text("DEEP_SECRET=2\n")
    os.link(project / ".env", project / "notes.txt")
    os.link(project / "services" / "api" / ".env", project / "src" / "deep.txt")
    os.link(project / "src" / "a.py", project / "src" / "same.py")
    names = ("notes.txt", "src/deep.txt")
    steps = [
        call("search", pattern="SECRET|x = 1"),
        call("list_files"),
        call("search", pattern="SECRET", path="notes.txt"),
    ]
    steps += [call("read_file", path=name) for name in names]
    steps += [call("write_file", path=name, content="gone") for name in names]
    refusing = DiskClient(permissions="reject")
    async with desk(project, *steps, "Done.", mode="code", client=refusing) as (session, client, model):
        await session.prompt("Go")
    told = [words for _, _, words in results(model)]
    assert not [words for words in told if "SECRET=" in words]
    assert told[0].splitlines() == ["src/a.py:1: x = 1", "src/same.py:1: x = 1"]
    assert told[1].splitlines() == ["src/a.py", "src/same.py"]
    assert len(asked(client)) == 2  # to read them; what was not read is not written
    assert (project / ".env").read_text() == "SECRET=1\n"


async def test_in_the_mode_code_a_protected_file_is_not_written_without_a_question(project: Path) -> None:
    for piece in ("HEAD", "objects/x", "refs/x"):  # a bare repository
        (project / "data" / piece).parent.mkdir(parents=True, exist_ok=True)
        (project / "data" / piece).write_text("ref: refs/heads/main\n")
    names = [".github/workflows/ci.yml", "vendor/x/.git/config", ".git/commondir", "data/config", "AGENTS.md"]
    steps = [call("write_file", path=name, content="x") for name in names]
    async with desk(project, *steps, "Done.", mode="code", client=DiskClient(permissions="reject")) as talking:
        session, client, _ = talking
        await session.prompt("Go")
    assert len(asked(client)) == len(names)
    assert not [name for name in names if (project / name).exists()]


async def test_a_page_is_visited_with_permission_and_its_words_are_read(project: Path) -> None:
    async with Page().open() as page:
        step = call("fetch_url", url=page.url)
        async with desk(project, step, step, "Done.", fetch=True) as (session, client, model):
            await session.prompt("Go")
    assert page.visits == 2
    assert results(model)[0] == ("fetch_url", "success", "Hello there")
    assert len(asked(client)) == 2


async def test_a_redirect_to_another_host_is_asked_about_as_well(project: Path) -> None:
    async with Page().open() as page, Page().open() as other:
        page.answers = f"HTTP/1.1 302 Found\r\nLocation: {other.url}\r\nContent-Length: 0\r\n\r\n".encode()

        def only_first(request: s.RequestPermissionRequest) -> str:
            return "allow" if not other.visits and len(asked(client)) == 1 else "reject"

        client = DiskClient(permissions=only_first)
        async with desk(project, call("fetch_url", url=page.url), "Done.", fetch=True, client=client) as (
            session,
            *_,
        ):
            await session.prompt("Go")
    assert (page.visits, other.visits) == (1, 0)


async def test_a_name_that_leads_to_this_machine_is_not_visited_and_neither_is_a_redirect_there(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = socket.getaddrinfo
    leads = {"rebound.example.com": "127.0.0.1"}
    monkeypatch.setattr(
        socket, "getaddrinfo", lambda host, *rest, **options: real(leads.get(host, host), *rest, **options)
    )
    async with Page().open() as page, Page().open() as inner:
        named = page.url.replace("127.0.0.1", "rebound.example.com")
        local = inner.url.replace("127.0.0.1", "localhost")
        page.answers = f"HTTP/1.1 302 Found\r\nLocation: {local}\r\nContent-Length: 0\r\n\r\n".encode()
        steps = [call("fetch_url", url=url) for url in (named, page.url, named.replace("http:", "http:\\\\"))]
        async with desk(project, *steps, "Done.", fetch=True) as (session, _, model):
            await session.prompt("Go")
    assert (page.visits, inner.visits) == (1, 0)
    told = [words for _, _, words in results(model)]
    assert "rebound.example.com leads to 127.0.0.1" in told[0]
    assert "localhost is a name of a private network" in told[1]


async def test_without_being_allowed_to_fetch_there_is_no_such_tool(project: Path) -> None:
    async with desk(project, call("fetch_url", url="http://127.0.0.1:9/"), "Done.") as (session, client, model):
        await session.prompt("Go")
    assert "There is no tool 'fetch_url'" in results(model)[0][2]
    assert asked(client) == []


async def test_rules_of_the_user_forbid_and_allow(project: Path, a_home_of_its_own: Path) -> None:
    rules = a_home_of_its_own / ".config" / "dragoman" / "permissions.toml"
    rules.parent.mkdir(parents=True)
    rules.write_text(
        '[[deny]]\noperation = "file_write"\npath = "**/*.lock"\nreason = "made by the package manager"\n'
        '[[allow]]\noperation = "terminal_execute"\nargv = ["echo", "..."]\n'
        '[[deny]]\noperation = "file_read"\npath = "src/**"\n'
    )
    steps = [
        call("write_file", path="uv.lock", content="x"),
        call("run_command", command="echo hello"),
        call("read_file", path="src/a.py"),
        call("search", pattern="x = 1"),
        call("list_files"),
        "Done.",
    ]
    async with desk(project, *steps, mode="code") as (session, client, model):
        await session.prompt("Go")
    told = results(model)
    assert [outcome for _, outcome, _ in told] == ["denied", "success", "denied", "success", "success"]
    assert "made by the package manager" in told[0][2]
    assert asked(client) == []
    assert told[3][2] == "Nothing found in the 2 files there; protected ones are not looked at."
    assert "a.py" not in told[4][2] and ".env" not in told[4][2]


async def test_commands_do_not_see_the_keys_of_the_agent(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-very-secret-0001")
    steps = [call("run_command", command="env"), "Done."]
    async with desk(project, *steps, client=BareClient()) as (session, _, model):
        await session.prompt("Go")
    assert "PATH=" in results(model)[0][2]
    assert "sk-very-secret" not in results(model)[0][2]
    assert os.environ["ANTHROPIC_API_KEY"]

"""Every option of the commands that start something reaches what it controls, and nothing else; none is left out.

The options of `dragoman serve` are in `gateway/test_serve_flags.py`.
"""

import argparse
import functools
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from dragoman.cli import parser

TESTY = f"{sys.executable} -m dragoman agent testy"
URL = "http://127.0.0.1:1/acp"
TOKEN = {"Authorization": "Bearer secret"}

Started = dict[str, Any]  # what a command starts, value by value
Row = tuple[tuple[str, ...], Mapping[str, Any]]  # words with the option, and the values that differ then


def launched(agent: Any) -> Any:
    """What of an agent an option can change."""
    return None if agent is None else (agent.url or list(agent.argv), dict(agent.headers))


def of_struct(options: Any) -> Started:
    told = {name: getattr(options, name) for name in options.__struct_fields__}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in told.items()}


def run(started: list[Started], patch: pytest.MonkeyPatch) -> None:
    async def record(options: Any) -> int:
        servers = [msgspec.to_builtins(server)["name"] for server in options.mcp_servers]
        started.append(of_struct(options) | {"agent": launched(options.agent), "mcp_servers": servers})
        return 0

    patch.setattr("dragoman.ui.headless.run", record)


def tui(started: list[Started], patch: pytest.MonkeyPatch) -> None:
    def record(options: Any, *, is_agent_named: bool, theme: str | None, find: object) -> None:
        others = {"agent": launched(options.agent), "is_agent_named": is_agent_named, "theme": theme}
        started.append(of_struct(options) | others)

    terminal = SimpleNamespace(isatty=lambda: True)
    patch.setattr("dragoman.cli.screens.tui.sys", SimpleNamespace(stdin=terminal, stdout=terminal))
    patch.setattr("dragoman.ui.tui.program.run", record)


def connect(started: list[Started], patch: pytest.MonkeyPatch) -> None:
    def record(url: str, *, headers: Any, cwd: Any, patience: Any, on_unreachable: Any) -> None:
        started.append({"url": url, "headers": headers(), "cwd": cwd, "patience": patience})

    patch.setattr("dragoman.gateway.attachment.attached", record)
    patch.setattr("dragoman.agent.serving.serve", lambda app: None)


def cursor(started: list[Started], patch: pytest.MonkeyPatch) -> None:
    def record(options: Any, ready: object) -> None:
        started.append(of_struct(options) | {"agents": sorted(options.agents)})

    def at_once(serving: Callable[[], None]) -> int:
        serving()
        return 0

    patch.setattr("dragoman.bridges.cursor.serving.serve_cursor", record)
    patch.setattr("dragoman.cli.hosting.cursor.run_server", at_once)


def mcp(started: list[Started], patch: pytest.MonkeyPatch) -> None:
    names = ("agent", "workspace", "preset", "port", "state")

    async def record(agent: Any, *rest: Any) -> None:
        found = dict(zip(names, (launched(agent), *rest), strict=False))
        started.append({**dict.fromkeys(names), **found, "http": len(rest) > 2})

    patch.setattr("dragoman.bridges.mcp.serving.serve_http", record)
    patch.setattr("dragoman.bridges.mcp.serving.serve_stdio", record)


def lsp(started: list[Started], patch: pytest.MonkeyPatch) -> None:
    async def record(agent: Any, preset: str, *, reviews: bool) -> None:
        started.append({"agent": launched(agent), "preset": preset, "reviews": reviews})

    patch.setattr("dragoman.bridges.lsp.server.serve_editor", record)


def agent(started: list[Started], patch: pytest.MonkeyPatch) -> None:
    def record(app: Any, *, dialect: str | None) -> None:
        given = app.keywords if isinstance(app, functools.partial) else {}
        made = app.func if isinstance(app, functools.partial) else app
        if "options" in given:
            given = of_struct(given["options"])
        started.append({"made": made.__name__, "dialect": dialect, **given})

    patch.setattr("dragoman.agent.serving.serve", record)


CAPTURES = {
    "run": run,
    "tui": tui,
    "connect": connect,
    "cursor": cursor,
    "mcp": mcp,
    "lsp": lsp,
    "agent": agent,
}
AGENT = {"agent": (["other", "words"], {})}
REMOTE = ("--agent", URL, "--token-file", "token")
WALLED = "--sandbox=agent"
# Each command with the words it needs, and its options.
TABLES: list[tuple[tuple[str, ...], dict[str, Row]]] = [
    (
        ("run", "hello", "--agent", TESTY),
        {
            "--agent": (("--agent", "other words"), AGENT),
            "--cwd": (("--cwd", "sub"), {"cwd": "{here}/sub"}),
            "--permissions": (("--permissions", "deny"), {"preset": "deny"}),
            "--mode": (("--mode", "plan"), {"mode": "plan"}),
            "--set": (("--set", "a=b", "--set", "c=d"), {"session_options": [("a", "b"), ("c", "d")]}),
            "--file": (("--file", "token"), {"files": [Path("token")]}),
            "--mcp": (("--mcp", "one=cmd", "--mcp", f"two={URL}"), {"mcp_servers": ["one", "two"]}),
            "--login": (("--login", "key"), {"login": "key"}),
            "--token-file": (REMOTE, {"agent": (URL, TOKEN)}),
            "--session": (("--session", "s1"), {"session": "s1"}),
            "--continue": (("--continue",), {"latest": True}),
            "--timeout": (("--timeout", "7"), {"timeout": 7.0}),
            "--json": (("--json",), {"json": True}),
            "--sandbox": (("--sandbox",), {"sandbox": "commands"}),
            "--sandbox=agent": ((WALLED,), {"sandbox": "agent"}),
            "--visible": ((WALLED, "--visible", "/a"), {"sandbox": "agent", "visible": ["/a"]}),
            "--network": ((WALLED, "--network", "a.test,b:2"), {"sandbox": "agent", "network": ["a.test", "b:2"]}),
            "--dialect": (("--dialect", "v2"), {"dialect": "v2"}),
        },
    ),
    (
        ("tui", "--agent", TESTY),
        {
            "--agent": (("--agent", "other words"), AGENT),
            "--cwd": (("--cwd", "sub"), {"cwd": "{here}/sub"}),
            "--permissions": (("--permissions", "deny"), {"preset": "deny"}),
            "--session": (("--session", "s1"), {"session": "s1"}),
            "--continue": (("--continue",), {"latest": True}),
            "--theme": (("--theme", "dragoman-dark"), {"theme": "dragoman-dark"}),
            "--token-file": (REMOTE, {"agent": (URL, TOKEN)}),
            "--dialect": (("--dialect", "v2"), {"dialect": "v2"}),
        },
    ),
    (
        ("connect", URL),
        {
            "--token-file": (("--token-file", "token"), {"headers": TOKEN}),
            "--cwd": (("--cwd", "/there"), {"cwd": "/there"}),
            "--patience": (("--patience", "7"), {"patience": 7.0}),
        },
    ),
    (
        ("cursor", "--agent", f"one={TESTY}"),
        {
            "--agent": (("--agent", f"two={TESTY}"), {"agents": ["one", "two"]}),
            "--port": (("--port", "99"), {"port": 99}),
            "--workspace": (("--workspace", "sub"), {"workspace": "sub"}),
            "--permissions": (("--permissions", "deny"), {"preset": "deny"}),
            "--origin": (
                ("--origin", "https://a"),
                {"origins": ["vscode-file://vscode-app", "https://a"]},
            ),
            "--token-file": (("--token-file", "token"), {"tokens": Path("token")}),
            "--state": (("--state", "sub"), {"state": Path("sub")}),
        },
    ),
    (
        ("mcp", "--agent", TESTY, "--http"),
        {
            "--agent": (("--agent", "other words"), AGENT),
            "--port": (("--port", "99"), {"port": 99}),
            "--workspace": (("--workspace", "sub"), {"workspace": "sub"}),
            "--permissions": (("--permissions", "deny"), {"preset": "deny"}),
            "--state": (("--state", "sub"), {"state": Path("sub")}),
        },
    ),
    (("mcp", "--stdio"), {"--lsp": (("--lsp",), {"agent": None})}),
    (("mcp", "--lsp"), {"--http": (("--http",), {"http": True, "port": 8766, "state": Path("{state}/mcp")})}),
    (("mcp", "--lsp"), {"--stdio": (("--stdio",), {})}),
    (
        ("lsp", "--agent", TESTY),
        {
            "--agent": (("--agent", "other words"), AGENT),
            "--permissions": (("--permissions", "deny"), {"preset": "deny"}),
            "--no-review": (("--no-review",), {"reviews": False}),
        },
    ),
    (
        ("agent", "testy"),
        {
            "--exhibit": (("--exhibit",), {"made": "Exhibition"}),
            "--dialect": (("--dialect", "v2"), {"dialect": "v2"}),
        },
    ),
    (
        ("agent", "coder"),
        {
            "--model": (("--model", "anthropic:claude-x"), {"model": "anthropic:claude-x"}),
            "--fetch": (("--fetch",), {"fetch": True}),
            "--no-language-servers": (("--no-language-servers",), {"language_servers": False}),
        },
    ),
    (
        ("agent", "claude"),
        {
            "--hide-claude-auth": (("--hide-claude-auth",), {"hide_subscription": True}),
            "--own-tools": (("--own-tools",), {"lent": False}),
        },
    ),
    (
        ("agent", "pty", "bash"),
        {
            "--program": (("--program", "python"), {"program": "python"}),
            "--prompt": (("--prompt", "> $"), {"prompt": "> $"}),
            "--silence": (("--silence", "7"), {"silence": 7.0}),
            "--size": (("--size", "90x30"), {"size": [90, 30]}),
        },
    ),
]


def name_of(words: tuple[str, ...], options: Mapping[str, Row]) -> str:
    """The command, and what tells it from the other rows about it."""
    return {"agent": f"agent {words[1]}", "mcp": f"mcp {next(iter(options))}"}.get(words[0], words[0])


ELSEWHERE = {"agent": {"--login", "--cli"}}  # tests/coder/test_login.py, tests/claude/test_surroundings.py


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Started]:
    """What a command line would start."""
    started: list[Started] = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("dragoman.cli.hosting.logs.log_to_stderr", lambda form=None: None)
    (tmp_path / "sub").mkdir()
    (tmp_path / "token").write_text("secret\n")
    (tmp_path / "token").chmod(0o600)

    def started_by(*words: str) -> Started:
        CAPTURES[words[0]](started, monkeypatch)
        arguments = parser().parse_args(list(words))
        assert (arguments.command(arguments) or 0) == 0
        return started.pop()

    return started_by


def placed(value: Any) -> Any:
    """A value of the table with the directories of this test in it."""
    places = {"{here}": str(Path.cwd()), "{state}": str(Path.home() / ".local" / "state" / "dragoman")}
    for name, place in places.items():
        if isinstance(value, str | Path):
            value = type(value)(str(value).replace(name, place))
    return value


@pytest.mark.parametrize(("words", "options"), TABLES, ids=[name_of(words, options) for words, options in TABLES])
def test_each_option_reaches_what_it_controls_and_nothing_else(
    words: tuple[str, ...], options: dict[str, Row], start: Callable[..., Started]
) -> None:
    without = start(*words)
    for option, (more, expected) in options.items():
        found = start(*words, *more)
        changed = {name: value for name, value in found.items() if value != without[name]}
        assert changed == {name: placed(value) for name, value in expected.items()}, option


def test_no_option_is_left_out() -> None:
    (commands,) = (action for action in parser()._actions if isinstance(action, argparse._SubParsersAction))
    for name in CAPTURES:
        there = {option for action in commands.choices[name]._actions for option in action.option_strings}
        tested = {option for words, options in TABLES for option in options if words[0] == name}
        assert there - {"-h", "--help"} - ELSEWHERE.get(name, set()) == tested, name

"""How the `claude` program is started: its arguments, its environment, and where it is found."""

import json
from pathlib import Path

import pytest

import dragoman.schema as s
from dragoman.bridges.claude.program import launch
from dragoman.bridges.claude.requests import launch_of, wants_raw
from dragoman.errors import AgentStartError, InvalidParams, MissingExtra

CLIENT = s.ClientCapabilities()


def argv(meta: dict[str, object] | None = None, **environment: str) -> list[str]:
    params = s.NewSessionRequest(cwd="/work", mcp_servers=[], meta=meta)
    return launch_of(params, CLIENT, environment).argv(None)


def test_the_environment_says_how_much_to_think(monkeypatch: pytest.MonkeyPatch) -> None:
    for tokens, expected in (("0", "--thinking=disabled"), ("2000", "--max-thinking-tokens=2000")):
        monkeypatch.setenv("MAX_THINKING_TOKENS", tokens)
        assert expected in argv()
    monkeypatch.setenv("MAX_THINKING_TOKENS", "a lot")
    assert not [word for word in argv() if "thinking" in word]


def test_the_models_of_the_environment_are_settings_of_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDE_MODEL_CONFIG", json.dumps({"availableModels": ["opus"], "other": 1}))
    options = {"claudeCode": {"options": {"settings": {"effortLevel": "low"}}}}
    (settings,) = [word for word in argv(options) if word.startswith("--settings=")]
    assert json.loads(settings.partition("=")[2]) == {"availableModels": ["opus"], "effortLevel": "low"}


def test_a_value_never_becomes_an_argument_of_its_own() -> None:
    options = {"model": "--dangerously-skip-permissions", "extraArgs": {"debug": None, "betas": "-x"}}
    words = argv({"claudeCode": {"options": options}, "systemPrompt": "--resume"})
    assert "--dangerously-skip-permissions" not in words and "--resume" not in words and "-x" not in words
    assert {"--debug", "--betas=-x", "--system-prompt=--resume"} <= set(words)


def test_what_a_client_sets_in_meta_becomes_arguments(tmp_path: Path) -> None:
    options = {
        "tools": ["Read", "Bash"],
        "settingSources": ["project"],
        "additionalDirectories": ["/b"],
        "maxTurns": 3,
        "fallbackModel": "haiku",
        "plugins": [{"type": "local", "path": "/plugin"}],
        "strictMcpConfig": True,
        "mcpServers": {"own": {"command": "x"}},
        "env": {"LEVEL": 3, "GONE": None},
        "cwd": "/elsewhere",
    }
    meta = {"additionalRoots": ["/a"], "claudeCode": {"options": options}}
    found = launch_of(s.NewSessionRequest(cwd="/work", mcp_servers=[], meta=meta), CLIENT, {})
    words = found.argv("/servers")
    wanted = ["--tools=Read,Bash", "--setting-sources=project", "--max-turns=3", "--fallback-model=haiku"]
    assert {*wanted, "--plugin-dir=/plugin", "--strict-mcp-config"} <= set(words)
    assert [words[n + 1] for n, word in enumerate(words) if word == "--add-dir"] == ["/a", "/b"]
    assert (found.cwd, found.servers) == ("/work", {"own": {"command": "x"}})
    assert found.env()["LEVEL"] == "3" and "GONE" not in found.env()
    copied = {"claudeCode": {"options": {"resume": "11111111-0000-4000-8000-000000000000"}}}
    assert {"--resume=11111111-0000-4000-8000-000000000000", "--fork-session"} <= set(argv(copied))
    assert "--tools=" in argv({"claudeCode": {"options": {"tools": []}}})
    with pytest.raises(InvalidParams, match="put commands into `hooks` of `settings`"):
        argv({"claudeCode": {"options": {"hooks": {"PreToolUse": []}}}})


def test_what_the_administrator_sets_wins(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    policy = tmp_path / "managed-settings.json"
    policy.write_text(json.dumps({"env": {"ANTHROPIC_BASE_URL": "https://proxy.example", "LEVEL": 3}}))
    monkeypatch.setattr(launch, "POLICY", {"linux": str(policy), "darwin": str(policy)})
    meta = {"claudeCode": {"options": {"env": {"ANTHROPIC_BASE_URL": "https://mine.example", "MINE": "1"}}}}
    env = launch_of(s.NewSessionRequest(cwd="/work", mcp_servers=[], meta=meta), CLIENT, {}).env()
    assert (env["ANTHROPIC_BASE_URL"], env["LEVEL"], env["MINE"]) == ("https://proxy.example", "3", "1")
    policy.write_text("not JSON")
    assert launch.policy_environment() == {}


def test_the_program_is_where_the_user_says_or_it_is_said_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDE_CODE_EXECUTABLE", "/opt/claude")
    assert launch.claude_program() == "/opt/claude"
    monkeypatch.delenv("CLAUDE_CODE_EXECUTABLE")
    assert launch.claude_program().endswith("_bundled/claude")
    monkeypatch.setattr(launch, "SDK", "no_such_module")
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(MissingExtra, match="dragoman\\[claude\\]"):
        launch.claude_program()
    monkeypatch.setattr(launch, "SDK", "json")  # a package without the program
    with pytest.raises(AgentStartError, match="CLAUDE_CODE_EXECUTABLE"):
        launch.claude_program()


def test_root_bypasses_no_permissions_except_in_a_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch.os, "geteuid", lambda: 0)
    monkeypatch.delenv("IS_SANDBOX", raising=False)
    assert "--allow-dangerously-skip-permissions" not in argv()
    monkeypatch.setenv("IS_SANDBOX", "1")
    assert "--allow-dangerously-skip-permissions" in argv()


def test_a_client_hears_the_messages_that_it_asked_for() -> None:
    wanted = [{"type": "result", "origin": "task-notification"}, {"type": "system", "subtype": "init"}]
    assert wants_raw(wanted, {"type": "system", "subtype": "init"})
    assert wants_raw(wanted, {"type": "result", "origin": {"kind": "task-notification"}})
    assert not wants_raw(wanted, {"type": "result"})
    assert wants_raw(True, {"type": "result"}) and not wants_raw(False, {"type": "result"})

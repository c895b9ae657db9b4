"""How to start the `claude` program for a session: its path, arguments and environment."""

import importlib.util
import json
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from .... import schema as s
from ....errors import AgentStartError, InvalidParams, MissingExtra
from ....foundation.directories import home_directory
from ....foundation.documents import Document, Json, members, strings_in
from ....foundation.programs import find_program
from ..tools.shown import ACP, objects
from .running import inherited_environment

log = logging.getLogger("dragoman")

SDK = "claude_agent_sdk"
INSTALL = "install it with: pip install 'dragoman[claude]'"
SOURCES = "user,project,local"
POLICY = {
    "linux": "/etc/claude-code/managed-settings.json",
    "darwin": "/Library/Application Support/ClaudeCode/managed-settings.json",
}
MAX_POLICY = 1024 * 1024  # bytes

# The program's options that a client may set (`_meta.claudeCode.options`), each with its argument.
VALUES = {
    "model": "--model",
    "fallbackModel": "--fallback-model",
    "effort": "--effort",
    "agent": "--agent",
    "maxTurns": "--max-turns",
    "maxBudgetUsd": "--max-budget-usd",
    "resumeSessionAt": "--resume-session-at",
}
LISTS = {"allowedTools": "--allowedTools", "betas": "--betas"}
SWITCHES = {"strictMcpConfig": "--strict-mcp-config", "includeHookEvents": "--include-hook-events"}
# Options that only the bridge sets, and those that it merges with its own.
DECIDED = {
    "cwd",
    "includePartialMessages",
    "allowDangerouslySkipPermissions",
    "permissionMode",
    "canUseTool",
    "executable",
    "executableArgs",
    "pathToClaudeCodeExecutable",
    "abortController",
    "stderr",
}
MERGED = {
    "mcpServers",
    "disallowedTools",
    "tools",
    "env",
    "systemPrompt",
    "settingSources",
    "additionalDirectories",
}
OTHER = {"extraArgs", "thinking", "maxThinkingTokens", "settings", "plugins", "agents", "skills", "resume", "hooks"}


class ClaudeLaunch(Struct, kw_only=True):
    """All settings for the start of a session's program."""

    cwd: str
    session_id: str
    resume: str | None = None  # the session to continue
    fork: bool = False
    servers: Mapping[str, Mapping[str, Json]] = {}
    directories: Sequence[str] = ()
    system_prompt: str | None = None  # in place of Claude's own
    system_addition: str | None = None
    options: Mapping[str, Json] = {}
    disallowed: Sequence[str] = ()
    builtin_tools: bool = True
    environment: Mapping[str, str] = {}
    model: str | None = None
    effort: str | None = None
    mode: str | None = None
    bypass: bool = False

    def argv(self, mcp_file: str | None) -> list[str]:
        """The command; MCP servers are in a file, since their settings may be secret."""
        options = self.options
        argv = [
            *(claude_program(), "--output-format", "stream-json", "--input-format", "stream-json", "--verbose"),
            *("--include-partial-messages", "--replay-user-messages", "--permission-prompt-tool", "stdio"),
            f"--setting-sources={_joined(options.get('settingSources'), SOURCES)}",
        ]
        argv += [f"--resume={self.resume}"] if self.resume else []
        argv += ["--fork-session"] if self.fork else []
        argv += [f"--session-id={self.session_id}"] if self.fork or not self.resume else []
        argv += ["--allow-dangerously-skip-permissions"] if self.bypass else []
        argv += [f"--permission-mode={self.mode}"] if self.mode else []
        argv += ["--mcp-config", mcp_file] if mcp_file else []
        argv += [part for directory in self.directories for part in ("--add-dir", directory)]
        argv += self._prompt() + self._tools() + _thinking(options)
        given = {**options, **_present(model=self.model, effort=self.effort)}
        argv += [f"{flag}={given[name]}" for name, flag in VALUES.items() if given.get(name) not in (None, "")]
        argv += [f"{flag}={_joined(given[name])}" for name, flag in LISTS.items() if given.get(name)]
        argv += [flag for name, flag in SWITCHES.items() if options.get(name)]
        return argv + _extra(options)

    def _prompt(self) -> list[str]:
        if self.system_prompt is not None:
            return [f"--system-prompt={self.system_prompt}"]
        return [f"--append-system-prompt={self.system_addition}"] if self.system_addition else []

    def _tools(self) -> list[str]:
        argv: list[str] = []
        tools = self.options.get("tools")
        if not self.builtin_tools:
            argv.append("--tools=")
        elif isinstance(tools, list):
            argv.append(f"--tools={','.join(map(str, tools))}")
        denied = [*self.disallowed, *strings_in(self.options.get("disallowedTools"))]
        return [*argv, f"--disallowedTools={','.join(denied)}"] if denied else argv

    def env(self) -> dict[str, str]:
        """The program's environment: ours, the client's, and the machine administrator's."""
        client = self.options.get("env")
        return {
            "CLAUDE_CODE_ENABLE_TODO_TOOLS": "1",  # tasks are shown as the plan
            **inherited_environment(),
            "CLAUDE_CODE_ENTRYPOINT": "sdk-py",
            **(_texts(client) if isinstance(client, dict) else {}),
            **self.environment,
            **policy_environment(),
            "CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS": "1",
            "PWD": self.cwd,
        }


def claude_program() -> str:
    """The program's path: the one the user gave, the one in the SDK, or the one on the PATH."""
    if chosen := os.environ.get("CLAUDE_CODE_EXECUTABLE"):
        return chosen
    spec = importlib.util.find_spec(SDK)
    places = spec.submodule_search_locations if spec else None
    bundled = [str(Path(place, "_bundled", "claude")) for place in places or ()]
    if found := next((path for path in bundled if os.access(path, os.X_OK)), None) or find_program("claude"):
        return found
    if spec is None:
        raise MissingExtra(f"Claude needs claude-agent-sdk: {INSTALL}")
    raise AgentStartError(
        "there is no program `claude`: the installed claude-agent-sdk contains none for this system. "
        "Install Claude Code, or set CLAUDE_CODE_EXECUTABLE to its path"
    )


def policy_environment() -> dict[str, str]:
    """The variables that the machine's administrator has set for Claude."""
    try:
        with open(POLICY.get(sys.platform, POLICY["linux"]), "rb") as file:
            policy = json.loads(file.read(MAX_POLICY))
    except (OSError, ValueError):
        return {}
    env = policy.get("env") if isinstance(policy, dict) else None
    return _texts(env) if isinstance(env, dict) else {}


def config_directory() -> Path:
    """The directory of the program's sessions and settings."""
    chosen = os.environ.get("CLAUDE_CONFIG_DIR")
    return Path(chosen) if chosen else home_directory() / ".claude"


def may_bypass() -> bool:
    """Whether permissions may be bypassed: not as root, except in a sandbox."""
    return os.geteuid() != 0 or bool(os.environ.get("IS_SANDBOX"))


def server_config(server: s.McpServer) -> Document:
    """A session's MCP server in the program's form."""
    match server:
        case s.McpServerHttp(url=url, headers=headers):
            return {"type": "http", "url": url, "headers": {header.name: header.value for header in headers}}
        case s.McpServerSse(url=url, headers=headers):
            return {"type": "sse", "url": url, "headers": {header.name: header.value for header in headers}}
        case s.McpServerStdio(command=command, args=args, env=env):
            variables = {variable.name: variable.value for variable in env}
            return {"type": "stdio", "command": command, "args": list(args), "env": variables}
        case s.McpServerAcp(name=name):
            return {"type": "sdk", "name": name}
    raise InvalidParams("an MCP server is neither stdio, http, sse nor acp")


def checked_options(given: Json) -> Document:
    """The client's options for the program (`_meta.claudeCode.options`); unknown ones are refused."""
    if given is None:
        return {}
    if not isinstance(given, dict):
        raise InvalidParams("_meta.claudeCode.options must be an object")
    if given.get("hooks"):
        raise InvalidParams(
            "_meta.claudeCode.options.hooks cannot be functions here; put commands into `hooks` of `settings`"
        )
    known = {*VALUES, *LISTS, *SWITCHES, *DECIDED, *MERGED, *OTHER}
    if unknown := sorted(set(given) - known):
        raise InvalidParams(f"_meta.claudeCode.options.{unknown[0]} is not a known option")
    return {name: value for name, value in given.items() if name not in DECIDED}


def is_ours(tool: str) -> bool:
    """Whether a tool runs through the client."""
    return tool.startswith(ACP)


def _thinking(options: Mapping[str, Json]) -> list[str]:
    """The tokens for thinking: from the client, or MAX_THINKING_TOKENS; 0 turns thinking off."""
    thinking = options.get("thinking")
    if isinstance(thinking, dict):
        kind, budget = thinking.get("type"), thinking.get("budgetTokens")
        argv = [f"--max-thinking-tokens={budget}"] if kind == "enabled" and budget else []
        argv = [f"--thinking={kind}"] if kind in ("adaptive", "disabled") else argv
    else:
        tokens = str(options.get("maxThinkingTokens") or os.environ.get("MAX_THINKING_TOKENS") or "")
        if not tokens.isdecimal():
            argv = []
        else:
            argv = [f"--max-thinking-tokens={tokens}"] if int(tokens) else ["--thinking=disabled"]
    display = os.environ.get("CLAUDE_CODE_THINKING_DISPLAY")
    return [*argv, f"--thinking-display={display}"] if display and "--thinking=disabled" not in argv else argv


def _extra(options: Mapping[str, Json]) -> list[str]:
    """Arguments for settings of the program without options of their own."""
    argv: list[str] = []
    settings = _with_models(options.get("settings"))
    if settings:
        argv.append(f"--settings={settings if isinstance(settings, str) else json.dumps(settings)}")
    for plugin in objects(options.get("plugins")):
        if plugin.get("path"):
            argv.append(f"--plugin-dir={plugin['path']}")
    extra = options.get("extraArgs")
    for name, value in extra.items() if isinstance(extra, dict) else ():
        argv.append(f"--{name}" if value is None else f"--{name}={value}")
    return argv


def _with_models(settings: Json) -> Json:
    """The client's settings, with the models of CLAUDE_MODEL_CONFIG; settings in a file are not changed."""
    try:
        models = json.loads(os.environ.get("CLAUDE_MODEL_CONFIG") or "{}")
    except ValueError:
        log.warning("CLAUDE_MODEL_CONFIG is not JSON; it is ignored")
        return settings
    if not isinstance(models, dict) or (settings and not isinstance(settings, dict)):
        return settings
    named = {name: models[name] for name in ("modelOverrides", "availableModels") if name in models}
    return {**named, **members(settings)}


def _joined(value: Json, default: str = "") -> str:
    return ",".join(strings_in(value)) if isinstance(value, list) else default


def _texts(env: Mapping[str, Json]) -> dict[str, str]:
    return {name: str(value) for name, value in env.items() if value is not None}


def _present(**values: str | None) -> dict[str, str]:
    return {name: value for name, value in values.items() if value}

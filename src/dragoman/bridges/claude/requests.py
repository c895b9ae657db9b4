"""Turn a client's request for a session, including its `_meta`, into the launch of a program."""

import uuid
from collections.abc import Mapping, Sequence

import msgspec

from ... import schema as s
from ...errors import InvalidParams
from ...foundation.documents import Json
from ...roles import offered
from .program.launch import ClaudeLaunch, checked_options, may_bypass, server_config

Opening = s.NewSessionRequest | s.LoadSessionRequest | s.ResumeSessionRequest | s.ForkSessionRequest
Raw = bool | Sequence[Mapping[str, Json]]


def launch_of(params: Opening, client: s.ClientCapabilities, environment: Mapping[str, str]) -> ClaudeLaunch:
    """The launch of the program for a session."""
    meta = params.meta or {}
    claude = meta.get("claudeCode")
    options = checked_options(claude.get("options") if isinstance(claude, dict) else None)
    resume, fork, id = _identity(params, options)
    replaced, added = _system_prompt(params, meta)
    own = options.get("mcpServers")
    servers = {**(own if isinstance(own, dict) else {}), **{sv.name: server_config(sv) for sv in _named(params)}}
    disallowed = [] if offered(client, "elicitation.form") else ["AskUserQuestion"]
    return ClaudeLaunch(
        cwd=params.cwd,
        session_id=id,
        resume=resume,
        fork=fork,
        servers=servers,
        directories=_directories(params, meta, options),
        system_prompt=replaced,
        system_addition=added,
        options=options,
        disallowed=disallowed,
        builtin_tools=not (meta.get("disableBuiltInTools") is True or options.get("tools") == []),
        environment=environment,
        bypass=may_bypass(),
    )


def raw_messages(meta: Mapping[str, Json] | None) -> Raw:
    """Whether the client wants the program's raw messages, or which of them."""
    claude = (meta or {}).get("claudeCode")
    wanted = claude.get("emitRawSDKMessages") if isinstance(claude, dict) else None
    if isinstance(wanted, list):
        return [only for only in wanted if isinstance(only, dict)]
    return wanted is True


def wants_raw(raw: Raw, message: Mapping[str, Json]) -> bool:
    """Whether a message is among the raw messages that the client wants."""
    if isinstance(raw, bool):
        return raw
    kinds = ("type", "subtype", "origin")
    origin = message.get("origin")
    found = {**message, "origin": origin.get("kind") if isinstance(origin, dict) else origin}
    return any(all(found.get(kind) == only[kind] for kind in kinds if kind in only) for only in raw)


def fingerprint(params: Opening) -> bytes:
    """The facts that must be equal for a request to mean a session that is already open."""
    servers = sorted(msgspec.json.encode(server) for server in params.mcp_servers)
    return b"\0".join([params.cwd.encode(), *servers])


def _identity(params: Opening, options: Mapping[str, Json]) -> tuple[str | None, bool, str]:
    """The session to continue, whether to copy it, and the id."""
    match params:
        case s.LoadSessionRequest() | s.ResumeSessionRequest():
            return params.session_id, False, params.session_id
        case s.ForkSessionRequest():
            return params.session_id, True, str(uuid.uuid4())
    resume = options.get("resume")
    if isinstance(resume, str) and resume:
        return resume, True, str(uuid.uuid4())
    return None, False, str(uuid.uuid4())


def _system_prompt(params: Opening, meta: Mapping[str, Json]) -> tuple[str | None, str | None]:
    """The text that replaces Claude's own instructions, and the text that is added to them."""
    if given := params.system_prompt:
        words = "\n".join(block.text for block in given.content if isinstance(block, s.TextContent))
        return (words, None) if given.mode == "override" else (None, words)
    wanted = meta.get("systemPrompt")
    if isinstance(wanted, str):
        return wanted, None
    if isinstance(wanted, dict):
        addition = wanted.get("append")
        return None, addition if isinstance(addition, str) else None
    return None, None


def _directories(params: Opening, meta: Mapping[str, Json], options: Mapping[str, Json]) -> list[str]:
    older = [meta.get("additionalRoots"), options.get("additionalDirectories")]
    named = [path for paths in older if isinstance(paths, list) for path in paths if isinstance(path, str)]
    return list(dict.fromkeys([*params.additional_directories, *named]))


def _named(params: Opening) -> Sequence[s.McpServer]:
    servers: list[s.McpServer] = []
    for server in params.mcp_servers:
        if isinstance(server, s.Raw):
            raise InvalidParams("an MCP server has a type that this agent does not know")
        servers.append(server)
    return servers

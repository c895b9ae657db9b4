"""Testy's requests to a client: files, terminals, permission, forms, extensions."""

import json
import shlex

import msgspec

from .. import schema as s
from ..agent.turn import ALLOW_OR_NOT, Turn, new_id
from ..foundation.documents import Document, Json, document, string


async def read(turn: Turn, rest: str) -> None:
    """Read a file and say its content."""
    path, *span = shlex.split(rest)
    line, limit = (*map(int, span), None, None)[:2]
    await turn.say(await turn.read(path, line, limit))


async def write(turn: Turn, rest: str) -> None:
    """Write a file."""
    path, _, content = rest.partition(" ")
    await turn.write(path, content)
    await turn.say(f"Wrote {len(content)} characters.")


async def run(turn: Turn, rest: str) -> None:
    """Run a command in a terminal, and say its output and exit status."""
    command, *args = shlex.split(rest)
    async with turn.tool(f"Run {command}", kind="execute") as call, turn.terminal(command, *args) as terminal:
        await call.terminal(terminal)
        await terminal.wait()
        await turn.say(_told(await terminal.output()))


async def kill(turn: Turn, rest: str) -> None:
    """Start a command, kill it, and say its status."""
    command, *args = shlex.split(rest) or ["sleep", "60"]
    async with turn.terminal(command, *args) as terminal:
        await terminal.kill()
        await terminal.wait()
        await turn.say(_told(await terminal.output()))


async def overrun(turn: Turn, rest: str) -> None:
    """Run a command for a tenth of a second at most."""
    command, *args = shlex.split(rest) or ["sleep", "60"]
    async with turn.terminal(command, *args) as terminal:
        await terminal.wait(timeout=0.1)
        await turn.say(_told(await terminal.output()))


async def tail(turn: Turn, rest: str) -> None:
    """Run a command with a limit on the output that is kept."""
    limit, command, *args = shlex.split(rest)
    async with turn.terminal(command, *args, output_byte_limit=int(limit)) as terminal:
        await terminal.wait()
        await turn.say(_told(await terminal.output()))


async def released(turn: Turn, rest: str) -> None:
    """Request the output of a terminal that was released."""
    async with turn.terminal("true") as terminal:
        await terminal.wait()
    await terminal.output()


def _told(output: s.TerminalOutputResponse) -> str:
    status = output.exit_status or s.TerminalExitStatus()
    code = "" if status.exit_code is None else f" {status.exit_code}"
    end = f"signal {status.signal}" if status.signal else f"exit{code}"
    return f"{output.output}[{'truncated, ' if output.truncated else ''}{end}]"


async def ask(turn: Turn, rest: str) -> None:
    """Ask for permission with options of the given kinds, and say the outcome."""
    options = [s.PermissionOption(option_id=kind, name=kind, kind=kind) for kind in rest.split()]  # type: ignore[arg-type]
    async with turn.tool("Do something grave", kind="execute", raw_input={"really": True}) as call:
        permission = await turn.ask(call, options or ALLOW_OR_NOT)
        chosen = permission.option.option_id if permission.option else "nothing"
    await turn.say(f"{'Allowed' if permission else 'Not allowed'}: {chosen}.")


async def elicit(turn: Turn, rest: str) -> None:
    """Ask the user to fill in a form or to visit a page, and say the outcome."""
    if rest == "url":
        agreed = await turn.elicit_url("Please log in.", "https://example.com/login", id="visit-1")
        if agreed:
            turn.client.complete_elicitation(s.CompleteElicitationNotification(elicitation_id="visit-1"))
        await turn.say("Agreed." if agreed else "Declined.")
    else:
        answer = await turn.elicit("Who are you?", FORM)
        await turn.say("Declined." if answer is None else json.dumps(answer))


FORM = s.ElicitationSchema(
    title="You",
    properties={
        "name": s.StringPropertySchema(title="Name", min_length=1),
        "age": s.IntegerPropertySchema(minimum=0),
        "height": s.NumberPropertySchema(),
        "member": s.BooleanPropertySchema(default=False),
        "colours": s.MultiSelectPropertySchema(items=s.StringMultiSelectItems(enum=["red", "green", "blue"])),
    },
    required=["name"],
)


async def mcp(turn: Turn, rest: str) -> None:
    """Send a request to an MCP server of the session, or of the client over ACP, and say its answer."""
    name, method, params = (*rest.split(" ", 2), "", "")[:3]
    server = next((server for server in turn.session.mcp_servers if server.name == name), None)
    if server is None:
        await turn.say(f"The session has no MCP server {name!r}.")
        return
    given = json.loads(params or "{}")
    if not isinstance(server, s.McpServerAcp):
        await turn.say(json.dumps(await _of_server(turn, name, method or "tools/list", given)))
        return
    asked = s.MessageMcpRequest(
        server_id=server.server_id,
        request_id=new_id("mcp"),
        method=method or "tools/list",
        params={**given, "_meta": MCP_CALLER},
    )
    await turn.say(json.dumps(await turn.client.message_mcp(asked)))


async def _of_server(turn: Turn, name: str, method: str, params: Document) -> object:
    """The answer of a server that the session's tools reach."""
    async with turn.session.tools(sampling=_sampled) as tools:
        if name in tools.failures:
            return tools.failures[name]
        match method:
            case "tools/call":
                found: object = await tools.call(
                    turn, f"{name}/{params['name']}", document(params.get("arguments") or {})
                )
            case "resources/read":
                found = await tools.read(string(params["uri"]), server=name)
            case "resources/list":
                found = await tools.resources()
            case "resources/templates/list":
                found = await tools.templates()
            case "prompts/list":
                found = tools.prompts()
            case "prompts/get":
                found = await tools.prompt(name, string(params["name"]), _texts(params))
            case _:
                found = [tool for tool in tools if tool.server == name]
    told: object = msgspec.to_builtins(found)
    return told


def _texts(params: Document) -> dict[str, str]:
    return {name: string(value) for name, value in document(params.get("arguments") or {}).items()}


async def _sampled(request: object) -> str:
    """Sampling: a fixed answer in place of a model's."""
    return "Testy answers."


MCP_CALLER = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "testy", "version": "1.0"},
}


async def request(turn: Turn, rest: str) -> None:
    """Send the client a request of an extension, and say its answer."""
    name, params = _extension(rest)
    await turn.say(json.dumps(await turn.client.request(name, params)))


async def notify(turn: Turn, rest: str) -> None:
    """Send the client a notification of an extension."""
    turn.client.notify(*_extension(rest))


def _extension(rest: str) -> tuple[str, Json]:
    name, _, params = rest.partition(" ")
    return name or "_testy/ping", json.loads(params or "{}")


async def nested(turn: Turn, rest: str) -> None:
    """Make nested requests between agent and client to a given depth, and say the depth reached."""
    await turn.say(str(await turn.client.request("_testy/nest", {"depth": int(rest or 3)})))

"""Imports point one way, and what is pure stays pure: read off the source itself."""

import ast
import functools
import re
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src" / "dragoman"

# Each may import what stands above it.  Parts and programs do not import each other.
LAYERS = (
    {"errors", "definitions"},
    {"foundation"},
    {"schema"},
    {"codec", "framing"},
    {"envelope", "events"},
    {"dialects"},
    {"rpc", "transcript", "transports"},
    {"signatures"},
    {"roles"},
    {"connection"},
    {"agent", "client", "proxy"},
    {"testing", "host", "store"},
    {"mcp", "lsp"},  # which stand on the host: its rules and redaction, its keeper of processes
    {"blocking", "coder", "reviewer", "bridges", "gateway", "ui", "inspect"},
    {"cli"},
    {"__main__"},
)
SIDES = 10  # the layer whose members may know each other
LAYER_OF = {name: number for number, names in enumerate(LAYERS) for name in names}
LATE = {
    "agent": {"mcp"},  # whose session gives its author the MCP servers it was opened with
    "client": {"mcp"},  # which offers MCP servers of its own process
    # In the gateway the bridge to Cursor keeps its sessions; the reviewer finds what editors show.
    "bridges": {"gateway", "reviewer"},
    "coder": {"reviewer"},  # which checks its edits, and answers when there is no model
    "gateway": {"ui"},  # the gateway shows the page that is a client itself
    "transports": {"agent"},  # `asgi.endpoint` serves an app over each wire it accepts
}

PURE = (
    "schema",
    "codec",
    "framing",
    "envelope",
    "events",
    "rpc",
    "transcript",
    "dialects",
    "foundation/comparing.py",
    "foundation/columns.py",
    "foundation/terminal/",
    "ui/model/",
)
IMPURE = {
    *(
        "asyncio",
        "concurrent",
        "contextvars",
        "io",
        "logging",
        "multiprocessing",
        "os",
        "pathlib",
        "random",
        "select",
    ),
    *(
        "shutil",
        "signal",
        "socket",
        "ssl",
        "subprocess",
        "tempfile",
        "threading",
        "time",
        "datetime",
        "urllib",
        "http",
    ),
}
MAY_PRINT = ("cli/",)
# What comes with an extra may load its libraries: the files' prefix, the libraries.
EXTRAS: dict[str, set[str]] = {
    "bridges/lsp": {"lsprotocol", "pygls"},
    "bridges/mcp": {"mcp", "mcp_types"},
    "coder/model/providers": {"pydantic", "pydantic_ai"},
    "coder/model/schemas": {"jsonschema"},
    "gateway/log/nats": {"nats"},
    "gateway/tracing": {"opentelemetry"},
    "mcp/oauth/authorizing": {"httpx2"},
    "mcp/tasks": {"mcp", "mcp_types"},
    "mcp/transports/public": {"httpx2"},
    "mcp/transports/bodies": {"httpx2"},
    "ui/tui": {"rich", "textual"},
    "transports/remote": {"h11", "h2", "websockets"},
}

MODULES = sorted(SOURCE.rglob("*.py"))


@functools.cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def named(path: Path) -> str:
    return str(path.relative_to(SOURCE))


def part_of(path: Path) -> str:
    """The module or package of the first level a file belongs to; nothing for the package itself."""
    first = path.relative_to(SOURCE).parts[0]
    return "" if first == "__init__.py" else first.removesuffix(".py")


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def imports(path: Path, *, late: bool = True, typing: bool = True) -> Iterator[tuple[str, ...]]:
    """The dotted names a file imports, ours from the top; without those made later, or for types alone."""
    nodes: list[ast.AST] = [tree_of(path)]
    package = path.relative_to(SOURCE.parent).parent.parts
    while nodes:
        node = nodes.pop()
        if is_type_checking(node) and not typing:
            continue
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) and not late:
            continue
        nodes += ast.iter_child_nodes(node)
        if isinstance(node, ast.Import):
            yield from (tuple(alias.name.split(".")) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            base = (*above, *(node.module.split(".") if node.module else ()))
            yield from ((*base, alias.name) for alias in node.names)


def ours(path: Path, **which: bool) -> set[str]:
    """The parts of ours a file imports, other than its own."""
    found = {name[1] for name in imports(path, **which) if name[0] == "dragoman" and len(name) > 1}
    return {part for part in found if not part.startswith("__")} - {part_of(path)}


def test_every_module_has_a_layer() -> None:
    assert {part_of(path) for path in MODULES} - {""} <= set(LAYER_OF)


def test_imports_point_one_way() -> None:
    wrong = [
        f"{named(path)} imports {other}"
        for path in MODULES
        for other in ours(path)
        if (part := part_of(path)) and not may_import(part, other)
    ]
    assert not wrong


# The same inside packages that have packages: a room may import what stands above it, and its own layer not at all.
ROOMS: dict[str, tuple[set[str], ...]] = {
    "gateway": (
        {"early_updates", "log_context", "metrics", "tracing", "workers"},
        {"log", "access", "chores"},
        {"agents"},
        {"sessions"},
        {"upkeep"},
        {"leases"},
        {"gateway"},
        {"clients", "operations", "returning"},
        {"options"},
        {"web", "attachment"},
        {"reloading"},
        {"serving"},
    ),
    "bridges/claude": (
        {"tools", "commands", "choices"},
        {"messages", "program", "logins"},
        {"titles", "requests", "own_commands"},
        {"history"},
        {"conversation"},
        {"questions"},
        {"lent"},
        {"open_session"},
        {"agent"},
    ),
    "transports": (
        {"holding", "memory", "batches"},
        {"stdio", "translating"},
        {"streams", "process", "remote"},
        {"relay"},
    ),
    "transports/remote": (
        {"addresses", "proxies", "unix_sockets", "cookies", "libraries"}
        | {"replay", "routing", "sse", "websocket_messages"},
        {"limits"},
        {"http2"},
        {"client", "server"},
        {"dialling"},
    ),
    "dialects": (
        {"engine", "declared"},
        {"v2", "draft", "pharo", "legacy", "jetbrains"},
        {"beamcode", "cursor", "detection"},
        {"older"},
    ),
}
TOGETHER = ({"log", "access"}, {"addresses", "proxies", "unix_sockets"})  # that know each other


def test_rooms_inside_a_package_point_one_way() -> None:
    wrong = []
    for package, layers in ROOMS.items():
        layer = {room: number for number, rooms in enumerate(layers) for room in rooms}
        prefix = ("dragoman", *package.split("/"))
        for path in (SOURCE / package).rglob("*.py"):
            room = path.relative_to(SOURCE / package).parts[0].removesuffix(".py")
            if room == "__init__":
                continue
            others = {name[len(prefix)] for name in imports(path) if name[: len(prefix)] == prefix} & set(layer)
            wrong += [
                f"{named(path)} imports {other}"
                for other in others - {room}
                if layer[other] >= layer[room] and not any({room, other} <= pair for pair in TOGETHER)
            ]
    assert not wrong


def test_every_room_has_a_place() -> None:
    for package, layers in ROOMS.items():
        rooms = {path.stem for path in (SOURCE / package).iterdir() if path.suffix == ".py" or path.is_dir()}
        assert rooms - {"__init__", "__pycache__"} == set().union(*layers), package


def test_no_bridge_imports_another() -> None:
    bridges = SOURCE / "bridges"
    wrong = [
        f"{named(path)} imports {name[2]}"
        for path in bridges.rglob("*.py")
        for name in imports(path)
        if name[:2] == ("dragoman", "bridges")
        and len(name) > 2
        and name[2] != path.relative_to(bridges).parts[0]
        and (bridges / name[2]).is_dir()
    ]
    assert not wrong


def may_import(part: str, other: str) -> bool:
    layer, theirs = LAYER_OF[part], LAYER_OF[other]
    return theirs < layer or theirs == layer == SIDES or other in LATE.get(part, ())


def test_no_modules_wait_for_each_other() -> None:
    names = {path.relative_to(SOURCE.parent).with_suffix("").parts: path for path in MODULES}
    names = {name[:-1] if name[-1] == "__init__" else name: path for name, path in names.items()}
    graph = {
        name: {
            known
            for found in imports(path, late=False, typing=False)
            for known in (found, found[:-1])
            if known in names and known != name and len(known) > 1
        }
        for name, path in names.items()
    }
    assert list(TopologicalSorter(graph).static_order())


def test_what_is_pure_waits_for_nothing_and_opens_nothing() -> None:
    waiting = ast.AsyncFunctionDef | ast.Await | ast.AsyncFor | ast.AsyncWith
    for path in (path for path in MODULES if part_of(path) in PURE or named(path).startswith(PURE)):
        nodes = list(ast.walk(tree_of(path)))
        assert not [node.lineno for node in nodes if isinstance(node, waiting)], named(path)
        assert not {name[0] for name in imports(path)} & IMPURE, named(path)
        assert not called(nodes) & {"open", "input", "print", "exec", "eval"}, named(path)


def called(nodes: list[ast.AST]) -> set[str]:
    return {node.func.id for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}


def test_the_peer_does_not_know_which_side_it_plays() -> None:
    for module in ("rpc.py", "events.py"):
        assert not re.findall(r"\b(?:agent|client)s?\b", (SOURCE / module).read_text(), re.IGNORECASE), module


def test_only_the_command_line_prints() -> None:
    printing = {named(path) for path in MODULES if "print" in called(list(ast.walk(tree_of(path))))}
    assert {name for name in printing if not name.startswith(MAY_PRINT)} == set()


def test_no_module_loads_more_than_the_standard_library_and_msgspec() -> None:
    for path in MODULES:
        loaded = {name[0] for name in imports(path, late=False, typing=False)}
        extra = {
            library for prefix, theirs in EXTRAS.items() if named(path).startswith(prefix) for library in theirs
        }
        assert loaded - set(sys.stdlib_module_names) - extra <= {"dragoman", "msgspec"}, named(path)


def loaded_by(statement: str) -> set[str]:
    """The modules that a statement loads in a fresh interpreter."""
    program = f"import sys; before = set(sys.modules); {statement}; print(*sorted(set(sys.modules) - before))"
    return set(
        subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True).stdout.split()
    )


def test_the_whole_library_needs_nothing_but_msgspec() -> None:
    names = loaded_by("import dragoman; [getattr(dragoman, name) for name in dragoman.__all__]")
    packages = {name.partition(".")[0] for name in names}
    packages.discard("typing_extensions")  # msgspec looks whether it is there
    assert packages - set(sys.stdlib_module_names) == {"dragoman", "msgspec"}


def test_importing_the_package_loads_no_event_loop() -> None:
    assert not {"asyncio", "msgspec", "dragoman.agent"} & loaded_by("import dragoman")


def test_an_agent_loads_no_client_and_no_process() -> None:
    names = loaded_by("from dragoman import Agent, serve")
    assert not {"dragoman.client", "dragoman.proxy", "dragoman.transports.process", "dragoman.testing"} & names

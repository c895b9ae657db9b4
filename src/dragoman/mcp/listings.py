"""Servers' lists: tools, resources, resource templates, prompts."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct

from .. import schema as s
from .contents import Clean, cleaned, link_of

if TYPE_CHECKING:
    import mcp_types as types
    from mcp.client.client import Client

MAX_ENTRIES = 500
MAX_PAGES = 20

T = TypeVar("T")
P = TypeVar("P", bound="types.PaginatedResult")


class ToolInfo(Struct, frozen=True):
    """A tool of a server; `reads_only` and `output`, the schema of structured content, are the server's claims.

    `is_task` says that the server runs it as a task of MCP 2025-11-25 only.
    """

    name: str
    description: str
    parameters: Mapping[str, object]
    reads_only: bool = False
    server: str = ""
    title: str = ""
    output: Mapping[str, object] | None = None
    is_task: bool = False


class ResourceTemplate(Struct, frozen=True):
    """Resources that share a pattern of URIs (RFC 6570)."""

    server: str
    name: str
    uri_template: str
    description: str = ""
    mime_type: str | None = None


class PromptArgument(Struct, frozen=True):
    """An argument of a prompt."""

    name: str
    description: str = ""
    is_required: bool = False


class PromptInfo(Struct, frozen=True):
    """A prompt of a server."""

    server: str
    name: str
    description: str = ""
    arguments: tuple[PromptArgument, ...] = ()


async def tools_of(client: "Client", server: str, clean: Clean) -> list[ToolInfo]:
    """The tools of a server; empty if it does not advertise any."""

    def info(tool: "types.Tool") -> ToolInfo:
        hints = tool.annotations
        return ToolInfo(
            tool.name,
            clean(tool.description or ""),
            cleaned(tool.input_schema, clean),
            bool(hints and hints.read_only_hint),
            server,
            clean(tool.title or ""),
            cleaned(tool.output_schema, clean),
            bool(tool.execution and tool.execution.task_support == "required"),
        )

    return await _pages(
        lambda cursor: client.list_tools(cursor=cursor),
        lambda page: [info(tool) for tool in page.tools if _is_clean(tool.name, clean)],
    )


async def resources_of(client: "Client", clean: Clean) -> list[s.ResourceLink]:
    """The resources of a server."""
    return await _pages(
        lambda cursor: client.list_resources(cursor=cursor),
        lambda page: [link_of(resource, clean) for resource in page.resources],
    )


async def templates_of(client: "Client", server: str, clean: Clean) -> list[ResourceTemplate]:
    """The templates of a server."""

    def info(template: "types.ResourceTemplate") -> ResourceTemplate:
        told, kind = clean(template.description or ""), template.mime_type and clean(template.mime_type)
        return ResourceTemplate(server, clean(template.name), clean(template.uri_template), told, kind)

    return await _pages(
        lambda cursor: client.list_resource_templates(cursor=cursor),
        lambda page: map(info, page.resource_templates),
    )


async def prompts_of(client: "Client", server: str, clean: Clean) -> list[PromptInfo]:
    """The prompts of a server."""

    def info(prompt: "types.Prompt") -> PromptInfo:
        arguments = tuple(
            PromptArgument(each.name, clean(each.description or ""), bool(each.required))
            for each in prompt.arguments or ()
            if _is_clean(each.name, clean)
        )
        return PromptInfo(server, prompt.name, clean(prompt.description or ""), arguments)

    return await _pages(
        lambda cursor: client.list_prompts(cursor=cursor),
        lambda page: [info(prompt) for prompt in page.prompts if _is_clean(prompt.name, clean)],
    )


def _is_clean(name: str, clean: Clean) -> bool:
    """Whether a name holds no credential; one that does cannot be shown, and another name would not work."""
    return clean(name) == name


async def _pages(ask: "Callable[[str | None], Awaitable[P]]", read: "Callable[[P], Iterable[T]]") -> list[T]:
    found: list[T] = []
    cursor = None
    for _ in range(MAX_PAGES):
        page = await ask(cursor)
        found += read(page)
        cursor = page.next_cursor
        if not cursor or len(found) >= MAX_ENTRIES:
            break
    return found[:MAX_ENTRIES]


def offers(client: "Client", kind: str) -> bool:
    """Whether a server advertises tools, prompts or resources."""
    return getattr(client.server_capabilities, kind, None) is not None


def named(entries: Sequence[T], name: str) -> T | None:
    """The entry with this name."""
    return next((entry for entry in entries if getattr(entry, "name", None) == name), None)

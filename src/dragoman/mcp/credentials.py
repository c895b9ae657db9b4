"""The credentials in a server's configuration, which are removed from everything the server sends."""

from collections.abc import Iterator, Sequence
from urllib.parse import parse_qsl, unquote, urlsplit

from .. import schema as s
from ..host.audit.looks import without_looks
from ..host.audit.named import names_secret, tells_nothing, without_named
from ..host.audit.redaction import Redactor
from ..host.variables import is_secret_name

PLAIN_HEADERS = {"accept", "accept-encoding", "accept-language", "content-type", "user-agent"}


def redactor_of(config: s.McpServer) -> Redactor:
    """A function that removes a server's credentials (environment, headers, arguments, URL) from texts."""
    return Redactor(secret for secret in _secrets(config) if secret)


def _secrets(config: s.McpServer) -> Iterator[str]:
    match config:
        case s.McpServerStdio(args=args, env=env):
            yield from (each.value for each in env if _is_secret(each.name, each.value))
            yield from _in_arguments(args)
        case s.McpServerHttp(url=url, headers=headers) | s.McpServerSse(url=url, headers=headers):
            for header in headers:
                if header.name.lower() not in PLAIN_HEADERS:
                    yield header.value
                    yield header.value.rpartition(" ")[2]  # without the name of its scheme
            yield from _in_address(url)


def _is_secret(name: str, value: str) -> bool:
    if without_looks(value) != value:
        return True
    is_named = is_secret_name(name) or names_secret(name)
    return is_named and not value.startswith(("/", "~/")) and not value.isdigit()


def _in_arguments(args: Sequence[str]) -> Iterator[str]:
    before = ""
    for word in args:
        name, equals, value = word.partition("=")
        if equals and _is_secret(name.lstrip("-"), value):
            yield value
        elif (
            before.startswith("-") and names_secret(before.lstrip("-")) and not tells_nothing(before, word)
        ) or without_named(without_looks(word)) != word:
            yield word
        before = word


def _in_address(url: str) -> Iterator[str]:
    try:
        parts = urlsplit(url)
    except ValueError:
        return
    yield unquote(parts.password or "")
    yield from (value for name, value in parse_qsl(parts.query) if _is_secret(name, value))

"""Describes rules: the scope of each rule, and the verdict of all rules on one operation."""

import time
from collections.abc import Iterator

from ...addresses import Origin
from ...display import quoted, visible
from ...operations import Operation
from .matching import Circumstances, ParsedOperation, Relevance, Rule
from .rules import Rules

_NAMES = {
    "file_read": "reading",
    "file_write": "writing",
    "file_delete": "deleting",
    "terminal_execute": "running",
    "network_access": "visiting",
    "mcp_tool": "calling",
}


def covered(rule: Rule) -> str:
    """The scope of a rule, in one line."""
    said = f"{' or '.join(_NAMES[kind] for kind in rule.operations)} {_subject(rule)}"
    if rule.cwd is not None:
        said += f" in {visible(rule.cwd)}"
    if rule.env:
        said += f" with {', '.join(f'{quoted(name)}={quoted(value)}' for name, value in rule.env.items())}"
    if rule.agent is not None:
        said += f", for the agent {visible(rule.agent)}"
    if rule.expires is not None and rule.expires <= time.time():
        said += "; it has expired"
    return said


def _subject(rule: Rule) -> str:
    if rule.paths:
        return ", ".join(map(visible, rule.paths))
    if rule.argv is not None:
        words = " ".join(quoted(word) if not rule.is_ban else visible(word) for word in rule.argv)
        return f"{words}{_rest(rule)}"
    if rule.shell is not None:
        return f"by a shell: {visible(rule.shell)}"
    if rule.hosts:
        return ", ".join(map(_address, rule.hosts))
    if rule.server is not None or rule.tools:
        tools = ", ".join(map(visible, rule.tools)) or "any tool"
        return f"{tools} of {'any server' if rule.server is None else visible(rule.server)}"
    return "anything"


def _address(host: Origin) -> str:
    scheme = f"{host.scheme}://" if host.scheme else ""
    return f"{scheme}{host.host}{'' if host.port is None else f':{host.port}'}"


def _rest(rule: Rule) -> str:
    if not rule.is_open:
        return ""
    return " and any further arguments" if rule.is_ban else " and further arguments that are known to be harmless"


def rules_about(rules: Rules, operation: Operation, place: Circumstances) -> Iterator[tuple[Rule, Relevance]]:
    """The rules that concern an operation, or may concern it."""
    seen = ParsedOperation(operation)
    for rule in rules.rules:
        if relevance := rule.relevance(seen, place):
            yield rule, relevance

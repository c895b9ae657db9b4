"""The analysers of a review: our own checks by topic, and the installed linters."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from itertools import islice
from typing import Literal

from msgspec import Struct

from ..schema import ToolKind
from .checks import data, grammars, leftovers, python, secrets, shell, text, yaml
from .checks.doubts import certain
from .findings import Check, Finding, Source
from .linters.commands import Commands
from .linters.linters import InstalledLinter, findings_of, parsed, shell_syntax, tools_for
from .project import Progress
from .settings import by_ruff_settings, has_chosen_rules

BATCH = 25  # files checked before looking again whether the turn was cancelled
MOST_FINDINGS = 200  # findings of one check in one file

# What an analyser can find in a file: faults of any text, of its language's syntax, or mistakes in its language.
Depth = Literal["text", "syntax", "mistakes"]
Look = Callable[[Progress], Awaitable[list[Finding]]]


class Analyser(Struct, frozen=True):
    """One entry of the plan: its name, its files, and its check."""

    name: str
    kind: ToolKind
    sources: Sequence[Source]
    look: Look
    tool: InstalledLinter | None = None  # the linter that it runs
    depth: Depth = "mistakes"
    unread: Sequence[str] = ()  # files that it could not read


class Topic(Struct, frozen=True):
    """A group of our own checks."""

    name: str
    wants: Callable[[Source], bool]
    checks: Sequence[Check]
    line_by_line: bool = False  # a fragment is enough for it
    takes_all: bool = False  # it also applies to files that would not be repaired


def _is_python(source: Source) -> bool:
    return source.path.endswith((".py", ".pyi"))


def _is_data(source: Source) -> bool:
    return source.path.endswith((".json", ".toml")) or yaml.is_known(source)


def _anything(source: Source) -> bool:
    return True


def _debuggers(source: Source) -> Iterator[Finding]:
    """Find debuggers: in syntax trees of whole files, in lines of fragments."""
    if source.is_fragment or not _is_python(source):
        return leftovers.debuggers(source)
    found = python.debuggers(source)
    return leftovers.debuggers(source) if found is None else found


NOTES = Topic("Notes to oneself", _anything, (leftovers.notes,), line_by_line=True)


def topics(*, has_ruff: bool, has_shellcheck: bool) -> tuple[Topic, ...]:
    """Our own checks, without those that an installed linter does better."""
    python_checks = () if has_ruff else (python.python_syntax, python.python_rules)
    shell_rules = shell.rules_beside_shellcheck if has_shellcheck else shell.shell_rules
    return (
        Topic("Python", _is_python, python_checks),
        Topic("Shell scripts", shell.is_shell, (shell.line_ends, shell_rules)),
        Topic(
            "Data files",
            _is_data,
            (data.json_syntax, data.json_duplicates, data.toml_syntax, yaml.yaml_syntax),
        ),
        Topic("Secrets", _anything, (secrets.secrets,), line_by_line=True, takes_all=True),
        Topic(
            "Leftovers",
            _anything,
            (leftovers.merge_markers, _debuggers, leftovers.notes),
            line_by_line=True,
        ),
        Topic(
            "Encoding and size",
            _anything,
            (text.encoding, text.hidden_characters, text.large),
            line_by_line=True,
        ),
    )


def analysers_for(sources: Sequence[Source], cwd: str, commands: Commands) -> list[Analyser]:
    """All analysers that have files to check."""
    real = [source for source in sources if not source.apart]
    tools = tools_for(cwd, real)
    programs = {tool.linter.program for tool in tools}
    own = topics(has_ruff="ruff" in programs, has_shellcheck="shellcheck" in programs)
    found = [analyser for topic in own if topic.checks and (analyser := of_topic(topic, sources, cwd, commands))]
    if (others := _of_grammars(real, cwd, commands)) is not None:
        found.append(others)
    return [*found, *(_of_tool(tool, real, commands) for tool in tools)]


def of_topic(topic: Topic, sources: Sequence[Source], cwd: str, commands: Commands) -> Analyser | None:
    whole = [source for source in sources if topic.line_by_line or not source.is_fragment]
    real = [source for source in whole if topic.takes_all or not source.apart]
    wanted = [source for source in real if topic.wants(source)]
    if not wanted:
        return None

    async def look(progress: Progress) -> list[Finding]:
        found = await checked(topic.checks, wanted, progress)
        if topic.wants is shell.is_shell:
            found += await shell_syntax(commands, cwd, wanted)
        if topic.wants is _is_python:
            found = await asyncio.to_thread(certain, found, wanted)
        return found

    return Analyser(topic.name, "search", wanted, look, depth="text" if topic.line_by_line else "mistakes")


def _of_grammars(sources: Sequence[Source], cwd: str, commands: Commands) -> Analyser | None:
    wanted = [source for source in sources if not source.is_fragment and grammars.has_grammar(source)]
    if not wanted:
        return None
    unread: list[str] = []

    async def look(progress: Progress) -> list[Finding]:
        found, left = await parsed(commands, cwd, wanted)
        unread[:] = left
        return found

    return Analyser("Syntax", "execute", wanted, look, depth="syntax", unread=unread)


def _of_tool(tool: InstalledLinter, sources: Sequence[Source], commands: Commands) -> Analyser:
    wanted = [source for source in sources if source.path.endswith(tool.linter.suffixes)]

    async def look(progress: Progress) -> list[Finding]:
        found = await findings_of(tool, commands, wanted)
        placed = await asyncio.to_thread(_with_better_places, found, wanted)
        if tool.linter.program != "ruff":
            return placed
        return await asyncio.to_thread(_without_doubts, placed, wanted, tool.cwd)

    return Analyser(tool.linter.name, "execute", wanted, look, tool)


def _without_doubts(found: Sequence[Finding], sources: Sequence[Source], cwd: str) -> list[Finding]:
    """Ruff's findings; without doubtful ones if the project chose no rules."""
    by_settings = by_ruff_settings(cwd, dict.fromkeys(finding.path for finding in found))
    ours = {path for base, paths in by_settings.items() if not has_chosen_rules(base) for path in paths}
    sure = set(certain([finding for finding in found if finding.path in ours], sources))
    return [finding for finding in found if finding.path not in ours or finding in sure]


def _with_better_places(found: Sequence[Finding], sources: Sequence[Source]) -> list[Finding]:
    """Findings with Python's own syntax errors, which name the bracket that was not closed."""
    broken = {finding.path for finding in found if finding.code == "syntax-error"}
    own = {
        finding.path: finding
        for source in sources
        if source.path in broken and _is_python(source)
        for finding in python.python_syntax(source)
    }
    told = [finding for finding in found if finding.code != "syntax-error" or finding.path not in own]
    return [*told, *own.values()]


async def checked(checks: Sequence[Check], sources: Sequence[Source], progress: Progress) -> list[Finding]:
    """Run checks in a thread, a few files at a time, so that the turn can be cancelled in between."""
    found: list[Finding] = []
    for start in range(0, len(sources), BATCH):
        batch = sources[start : start + BATCH]
        found += await asyncio.to_thread(_checked, checks, batch)
        await progress(start + len(batch), len(sources))
    return found


def _checked(checks: Sequence[Check], sources: Sequence[Source]) -> list[Finding]:
    return [finding for source in sources for check in checks for finding in islice(check(source), MOST_FINDINGS)]

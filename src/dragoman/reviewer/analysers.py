"""The analysers of a review: our own checks by topic, and the linters that are there."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from itertools import islice

from msgspec import Struct

from ..schema import ToolKind
from .checks import data, leftovers, python, secrets, shell, text, yaml
from .commands import Commands
from .findings import Check, Finding, Source
from .linters import Tool, findings_of, shell_syntax, tools_for
from .project import Progress

BATCH = 25  # files checked between two looks at whether the turn was cancelled
MOST_FINDINGS = 200  # of one check in one file

Look = Callable[[Progress], Awaitable[list[Finding]]]


class Analyser(Struct, frozen=True):
    """One entry of the plan: what it is called, the files it looks at, and how."""

    name: str
    kind: ToolKind
    sources: Sequence[Source]
    look: Look
    tool: Tool | None = None  # the linter it asks


class Topic(Struct, frozen=True):
    """Checks of our own that belong together."""

    name: str
    wants: Callable[[Source], bool]
    checks: Sequence[Check]
    line_by_line: bool = False  # so it can be asked about a fragment


def _is_python(source: Source) -> bool:
    return source.path.endswith((".py", ".pyi"))


def _is_data(source: Source) -> bool:
    return source.path.endswith((".json", ".toml", ".yaml", ".yml"))


def _anything(source: Source) -> bool:
    return True


NOTES = Topic("Notes to oneself", _anything, (leftovers.notes,), line_by_line=True)


def topics(*, has_ruff: bool, has_shellcheck: bool) -> tuple[Topic, ...]:
    """Our own checks; those a better linter makes as well stand back for it."""
    python_checks = (python.python_syntax,) if has_ruff else (python.python_syntax, python.python_rules)
    shell_rules = shell.rules_beside_shellcheck if has_shellcheck else shell.shell_rules
    return (
        Topic("Python", _is_python, python_checks),
        Topic("Shell scripts", shell.is_shell, (shell.line_ends, shell_rules)),
        Topic(
            "Data files",
            _is_data,
            (data.json_syntax, data.json_duplicates, data.toml_syntax, yaml.yaml_syntax),
        ),
        Topic("Secrets", _anything, (secrets.secrets,), line_by_line=True),
        Topic(
            "Leftovers",
            _anything,
            (leftovers.merge_markers, leftovers.debuggers, leftovers.notes),
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
    """All analysers that have something to look at."""
    tools = tools_for(cwd, sources)
    programs = {tool.linter.program for tool in tools}
    own = topics(has_ruff="ruff" in programs, has_shellcheck="shellcheck" in programs)
    found = [analyser for topic in own if (analyser := of_topic(topic, sources, cwd, commands))]
    return [*found, *(_of_tool(tool, sources, commands) for tool in tools)]


def of_topic(topic: Topic, sources: Sequence[Source], cwd: str, commands: Commands) -> Analyser | None:
    whole = [source for source in sources if topic.line_by_line or not source.is_fragment]
    wanted = [source for source in whole if topic.wants(source)]
    if not wanted:
        return None

    async def look(progress: Progress) -> list[Finding]:
        found = await checked(topic.checks, wanted, progress)
        if topic.wants is shell.is_shell:
            found += await shell_syntax(commands, cwd, wanted)
        return found

    return Analyser(topic.name, "search", wanted, look)


def _of_tool(tool: Tool, sources: Sequence[Source], commands: Commands) -> Analyser:
    wanted = [source for source in sources if source.path.endswith(tool.linter.suffixes)]

    async def look(progress: Progress) -> list[Finding]:
        return await findings_of(tool, commands, wanted)

    return Analyser(tool.linter.name, "execute", wanted, look, tool)


async def checked(checks: Sequence[Check], sources: Sequence[Source], progress: Progress) -> list[Finding]:
    """Make checks in a thread, a few files at a time, so that the turn can be cancelled in between."""
    found: list[Finding] = []
    for start in range(0, len(sources), BATCH):
        batch = sources[start : start + BATCH]
        found += await asyncio.to_thread(_checked, checks, batch)
        await progress(start + len(batch), len(sources))
    return found


def _checked(checks: Sequence[Check], sources: Sequence[Source]) -> list[Finding]:
    return [finding for source in sources for check in checks for finding in islice(check(source), MOST_FINDINGS)]

"""Repairs that do not change what a file means: made here, shown as diffs, written when the user says so."""

import asyncio
from collections.abc import Callable, Sequence
from difflib import SequenceMatcher

from msgspec import Struct
from msgspec.structs import replace

from .. import schema as s
from ..errors import ConnectionClosed, Error
from ..turn import Turn
from .analysers import checked, topics
from .checks.data import is_json, without_trailing_commas
from .checks.shell import is_shell, with_plain_equals
from .commands import CommandError, Commands
from .findings import Finding, Source, in_lines
from .linters import Tool, tools_for
from .project import Project, unseen
from .review import Outcome, counted

OPTIONS = (
    s.PermissionOption(option_id="apply", name="Apply", kind="allow_once"),
    s.PermissionOption(option_id="apply-all", name="Apply this and all that follow", kind="allow_always"),
    s.PermissionOption(option_id="leave", name="Leave it", kind="reject_once"),
    s.PermissionOption(option_id="leave-all", name="Leave this and all that follow", kind="reject_always"),
)


class Repair(Struct, frozen=True):
    """A file before and after."""

    source: Source
    text: str
    findings: Sequence[Finding]  # what it mends


class Mended(Struct, frozen=True):
    """What came of the repairs that were offered."""

    written: Sequence[Source]
    left: int


def _without_mark(source: Source) -> str:
    return source.text.removeprefix("\ufeff")


def _with_plain_line_ends(source: Source) -> str:
    return source.text.replace("\r\n", "\n") if is_shell(source) else source.text


def _without_commas(source: Source) -> str:
    return without_trailing_commas(source.text) if is_json(source.path) else source.text


OWN: dict[str, Callable[[Source], str]] = {
    "byte-order-mark": _without_mark,
    "json-trailing-comma": _without_commas,
    "shell-crlf": _with_plain_line_ends,
    "shell-equals-in-sh": with_plain_equals,
}


async def repairs(outcome: Outcome, codes: Sequence[str], project: Project, commands: Commands) -> list[Repair]:
    """The repairs for what a review found; only for some codes where some are named."""
    by_path: dict[str, list[Finding]] = {}
    for finding in outcome.findings:
        if finding.is_fixable and (not codes or finding.code in codes):
            by_path.setdefault(finding.path, []).append(finding)
    tools = tools_for(project.cwd, outcome.sources)
    ruff = next((tool for tool in tools if tool.linter.program == "ruff"), None)
    found = []
    for source in outcome.sources:
        mended = by_path.get(source.path, ())
        if mended and not source.is_fragment and project.is_inside(source.path):
            text = await _repaired(source, mended, ruff, commands)
            if text != source.text and not await _is_worse(source, text):
                found.append(Repair(source, text, mended))
    return found


async def _repaired(source: Source, mended: Sequence[Finding], ruff: Tool | None, commands: Commands) -> str:
    codes = {finding.code for finding in mended}
    for code, mend in OWN.items():
        if code in codes:
            source = replace(source, text=mend(source))
    for_ruff = sorted(codes - OWN.keys())
    if ruff and for_ruff and source.path.endswith(ruff.linter.suffixes):
        return await _ruff_fixed(source, for_ruff, ruff, commands)
    return source.text


async def _ruff_fixed(source: Source, codes: Sequence[str], ruff: Tool, commands: Commands) -> str:
    words = (
        "--fix-only",
        "--no-unsafe-fixes",
        "--fixable",
        ",".join(codes),
        "--stdin-filename",
        f"./{source.path}",
        "-",
    )
    settings = [word for word in ruff.linter.arguments(ruff) if word not in ("--no-fix", "--output-format", "json")]
    try:
        result = await commands.run([ruff.path, *settings, *words], cwd=ruff.cwd, stdin=source.text.encode())
        return result.stdout.decode() if result.code == 0 and result.stdout else source.text
    except (CommandError, UnicodeDecodeError):
        return source.text


async def _is_worse(source: Source, text: str) -> bool:
    """Whether a file has an error it did not have: then the repair is none."""
    own = [topic for topic in topics(has_ruff=True, has_shellcheck=False) if topic.wants(source)]
    checks = [check for topic in own for check in topic.checks]
    before = await checked(checks, [source], unseen)
    after = await checked(checks, [replace(source, text=text)], unseen)
    return {f.code for f in after if f.severity == "error"} > {f.code for f in before if f.severity == "error"}


async def offer(turn: Turn, project: Project, found: Sequence[Repair]) -> Mended:
    """Show each repair as a diff, and write those that are allowed."""
    written: list[Source] = []
    decided: s.PermissionOption | None = None  # for all that follow
    for repair in found:
        path = repair.source.path
        title = f"Fix {path}: {counted(len(repair.findings), 'finding')}"
        places = [s.ToolCallLocation(path=project.absolute(path), line=finding.line) for finding in repair.findings]
        async with turn.tool(title, kind="edit", locations=places) as call:
            await call.diff(project.absolute(path), repair.source.text, repair.text)
            if decided is None:
                permission = await turn.ask(call, OPTIONS)
                option = permission.option
                decided = option if option and option.kind.endswith("_always") else None
            else:
                option = decided
            if option is None or not option.kind.startswith("allow"):
                call.fail("Left as it was.")
            elif problem := await _written(project, repair):
                call.fail(problem)
            else:
                written.append(await _as_written(project, repair))
    return Mended(written, len(found) - len(written))


async def _as_written(project: Project, repair: Repair) -> Source:
    """The file as it is now, with the same lines under review."""
    old = repair.source
    now = await project.read(old.path) or replace(old, text=repair.text)
    return now if old.lines is None else in_lines(now, _moved(old.lines, old.text, now.text))


def _moved(lines: frozenset[int], before: str, after: str) -> frozenset[int]:
    """Where lines have gone; those that took the place of others are under review as well."""
    found: set[int] = set()
    changes = SequenceMatcher(None, before.splitlines(), after.splitlines(), autojunk=False).get_opcodes()
    for kind, start, end, new_start, new_end in changes:
        if kind == "equal":
            found |= {number - start + new_start for number in range(start + 1, end + 1) if number in lines}
        else:
            found |= set(range(new_start + 1, new_end + 1))
    return frozenset(found)


async def _written(project: Project, repair: Repair) -> str | None:
    """Write a repair; gives what stood in the way."""
    source = repair.source
    try:
        current = await project.read(source.path)
        if current is None or current.text != source.text:
            return "The file is no longer what was reviewed; run /fix again."
        await asyncio.shield(project.write(source.path, source.text, repair.text))
    except ConnectionClosed:
        raise
    except Error as exc:
        return str(exc)
    except OSError as exc:
        return exc.strerror or str(exc)
    return None

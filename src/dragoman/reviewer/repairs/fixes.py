"""Repairs that do not change a file's meaning: made here, shown as diffs, written with the user's permission."""

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from ... import schema as s
from ...agent.turn import Turn
from ...errors import ConnectionClosed, Error
from ...foundation.comparing import compared
from ..analysers import checked, topics
from ..checks.data import is_json, trailing_commas
from ..checks.shell import double_equals, is_shell
from ..findings import Finding, Source, in_lines
from ..linters.commands import CommandError, Commands
from ..linters.linters import InstalledLinter, by_settings, tools_for
from ..linters.outputs import LinterEdit, ruff_repairs
from ..project import Project, unseen
from ..review import ReviewOutcome, counted
from .drafts import ByteRange, LineRange, Places, RepairDraft, ReplacedRange, in_bytes, spliced, trimmed

OPTIONS = (
    s.PermissionOption(option_id="apply", name="Apply", kind="allow_once"),
    s.PermissionOption(option_id="apply-all", name="Apply this and all that follow", kind="allow_always"),
    s.PermissionOption(option_id="leave", name="Leave it", kind="reject_once"),
    s.PermissionOption(option_id="leave-all", name="Leave this and all that follow", kind="reject_always"),
)


MOST_PASSES = 20  # runs of Ruff for one file


class Repair(Struct, frozen=True):
    """The ranges of a file that repair some findings."""

    source: Source
    ranges: Sequence[ByteRange]
    findings: Sequence[Finding]  # the finding that it repairs

    @property
    def content(self) -> bytes:
        return spliced(self.source.content, self.ranges)

    @property
    def text(self) -> str:
        return self.content.decode(self.source.encoding or "utf-8")


class Mended(Struct, frozen=True):
    """The results of the offered repairs."""

    written: Sequence[Source]
    left: int


def _mark(source: Source) -> Iterator[ReplacedRange]:
    if source.text.startswith("\ufeff"):
        yield ReplacedRange(0, 1, "")


def _carriage_returns(source: Source) -> Iterator[ReplacedRange]:
    if is_shell(source):
        yield from (
            ReplacedRange(found.start(), found.start() + 1, "") for found in re.finditer("\r\n", source.text)
        )


def _commas(source: Source) -> Iterator[ReplacedRange]:
    if is_json(source.path):
        yield from (ReplacedRange(at, at + 1, "") for at in trailing_commas(source.text))


def _equals(source: Source) -> Iterator[ReplacedRange]:
    return (ReplacedRange(start, end, "=") for start, end in double_equals(source))


OWN: dict[str, Callable[[Source], Iterator[ReplacedRange]]] = {
    "byte-order-mark": _mark,
    "json-trailing-comma": _commas,
    "shell-crlf": _carriage_returns,
    "shell-equals-in-sh": _equals,
}


async def repairs(
    outcome: ReviewOutcome, codes: Sequence[str], project: Project, commands: Commands
) -> list[Repair]:
    """The repairs for the findings of a review; if codes are named, only for those."""
    by_path: dict[str, list[Finding]] = {}
    for finding in outcome.findings:
        if finding.is_fixable and (not codes or finding.code in codes):
            by_path.setdefault(finding.path, []).append(finding)
    tools = tools_for(project.cwd, outcome.sources)
    ruff = next((tool for tool in tools if tool.linter.program == "ruff"), None)
    found = []
    for source in outcome.sources:
        mended = by_path.get(source.path, ())
        if mended and source.is_repairable and project.is_writable(source):
            draft = await _repaired(source, mended, ruff, commands)
            if (ranges := in_bytes(source, draft)) and not await _is_worse(source, draft.text):
                found.append(Repair(source, ranges, mended))
    return found


async def _repaired(
    source: Source, mended: Sequence[Finding], ruff: InstalledLinter | None, commands: Commands
) -> RepairDraft:
    draft = RepairDraft(source.text)
    for code, mend in OWN.items():
        meant = [finding for finding in mended if finding.code == code]
        if meant:
            draft = draft.edited(_near(meant, draft.text, mend(replace(source, text=draft.text))))
    for_ruff = [finding for finding in mended if finding.code not in OWN]
    if ruff and for_ruff and source.path.endswith(ruff.linter.suffixes):
        return await _ruff_fixed(source, draft, for_ruff, ruff, commands)
    return draft


def _near(findings: Sequence[Finding], text: str, ranges: Iterable[ReplacedRange]) -> list[ReplacedRange]:
    """The ranges in the lines of findings; all ranges, if a finding concerns the whole file."""
    if any(finding.is_whole for finding in findings):
        return list(ranges)
    wanted = {finding.line for finding in findings}
    lines = LineRange(text)
    return [found for found in ranges if wanted.issuperset(lines.touched(found.start, found.end))]


async def _ruff_fixed(
    source: Source, draft: RepairDraft, mended: Sequence[Finding], ruff: InstalledLinter, commands: Commands
) -> RepairDraft:
    """The draft after Ruff's edits for these findings only, not for others of the same kind."""
    wanted = {(finding.line, finding.code, finding.message) for finding in mended}
    lines = None if source.lines is None else source.lines | {finding.line for finding in mended}
    offered = await _offered(source.path, draft.text, ruff, commands)
    for _ in range(MOST_PASSES):  # edits of one statement exclude each other
        others = {edits for found, edits in offered if _key(found) not in wanted}
        meant = dict.fromkeys(edits for _, edits in offered if edits and edits not in others)
        after, done = _edited(draft, meant, lines)
        if not done:
            break
        # Lines have moved, so a finding is recognised by its text, if that is unique.
        told = Counter((found.code, found.message) for found, _ in offered)
        left = wanted - {_key(found) for found, edits in offered if edits in done}
        words = {(code, message) for _, code, message in left if told[code, message] == 1}
        before, offered = offered, await _offered(source.path, after.text, ruff, commands)
        if _errors(found for found, _ in offered) - _errors(found for found, _ in before):
            break
        draft = after
        wanted = {_key(found) for found, _ in offered if (found.code, found.message) in words}
    return draft


def _key(finding: Finding) -> tuple[int, str, str]:
    return finding.line, finding.code, finding.message


async def _offered(
    path: str, text: str, ruff: InstalledLinter, commands: Commands
) -> list[tuple[Finding, tuple[LinterEdit, ...]]]:
    """Ruff's findings in a text, with the edits that it offers."""
    ((asked, _),) = by_settings(ruff, [path])
    words = [*ruff.linter.arguments(asked), "--stdin-filename", f"./{path}", "-"]
    try:
        result = await commands.run([ruff.path, *words], cwd=ruff.cwd, stdin=text.encode())
    except CommandError:
        return []
    return list(ruff_repairs(result.stdout)) if result.code == 0 else []


def _edited(
    draft: RepairDraft, repairs: Iterable[tuple[LinterEdit, ...]], wanted: frozenset[int] | None
) -> tuple[RepairDraft, set[tuple[LinterEdit, ...]]]:
    """The draft after those repairs that do not overlap and touch no other lines, and the repairs."""
    places, lines = Places(draft.text), LineRange(draft.original)
    taken: list[ReplacedRange] = []
    done: set[tuple[LinterEdit, ...]] = set()
    for edits in repairs:
        ranges = [
            trimmed(draft.text, places.offset(edit.start), places.offset(edit.end), edit.content) for edit in edits
        ]
        touched = [lines.touched(draft.origin(one.start), draft.origin(one.end)) for one in ranges]
        is_wanted = wanted is None or all(wanted.issuperset(some) for some in touched)
        if is_wanted and all(one.end <= a or one.start >= b for one in ranges for a, b, _ in taken):
            taken += ranges
            done.add(edits)
    return draft.edited(taken), done


async def _is_worse(source: Source, text: str) -> bool:
    """Whether a repaired file has a new error, so that the repair is dropped."""
    own = [topic for topic in topics(has_ruff=False, has_shellcheck=False) if topic.wants(source)]
    checks = [check for topic in own for check in topic.checks]
    before = await checked(checks, [source], unseen)
    after = await checked(checks, [replace(source, text=text)], unseen)
    return bool(_errors(after) - _errors(before))


def _errors(findings: Iterable[Finding]) -> Counter[tuple[str, str]]:
    """The number of errors of each kind; a higher number means a new error, even if lines have moved."""
    return Counter((finding.code, finding.message) for finding in findings if finding.severity == "error")


async def offer(turn: Turn, project: Project, found: Sequence[Repair]) -> Mended:
    """Show each repair as a diff, and write those that are allowed."""
    written: list[Source] = []
    decided: s.PermissionOption | None = None  # the answer for all further repairs
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
    """The new positions of lines; lines that replaced others are under review as well."""
    found: set[int] = set()
    for kind, start, end, new_start, new_end in compared(before.split("\n"), after.split("\n")):
        if kind == "equal":
            found |= {number - start + new_start for number in range(start + 1, end + 1) if number in lines}
        else:
            found |= set(range(new_start + 1, new_end + 1))
    return frozenset(found)


async def _written(project: Project, repair: Repair) -> str | None:
    """Write a repair; returns the reason if it could not be written."""
    source = repair.source
    try:
        current = await project.read(source.path)
        if current is None or (current.text, current.encoding) != (source.text, source.encoding):
            return "The file has changed since the review; run /fix again."
        await asyncio.shield(project.write(source, repair.content))
    except ConnectionClosed:
        raise
    except Error as exc:
        return str(exc)
    except OSError as exc:
        return exc.strerror or str(exc)
    return None

"""A review as the client sees it: a plan with an entry per analyser, each of which is a tool call."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress

from msgspec import Struct
from msgspec.structs import asdict

from .. import schema as s
from ..agent.runs import ToolRun
from ..agent.turn import Turn
from .analysers import Analyser, Depth, analysers_for
from .checks.exports import UNUSED, unused_everywhere
from .checks.leftovers import is_prose
from .checks.secrets import secrets, without_secrets
from .findings import Finding, Source, under_review, without_echoes
from .linters.commands import CommandError, Commands
from .project import Progress, Project, some
from .prompts import ReviewRequest

PACE = 0.3  # seconds between two reports of progress
MOST_SHOWN = 50  # locations and findings in a tool call
ALLOWED = "reviewer.allowed"  # in the session's state: programs that the user has allowed

MAY_RUN = (
    s.PermissionOption(option_id="once", name="Run it", kind="allow_once"),
    s.PermissionOption(option_id="session", name="Run it whenever this session needs it", kind="allow_always"),
    s.PermissionOption(option_id="skip", name="Review without it", kind="reject_once"),
)


class ReviewOutcome(Struct, frozen=True):
    """The findings of a review, and the files that it could not check."""

    sources: Sequence[Source]
    findings: Sequence[Finding]
    remarks: Sequence[str] = ()
    unknown: Sequence[Source] = ()  # files whose language no analyser knows
    skimmed: Sequence[Source] = ()  # files of which only the syntax was checked


class Review:
    """Makes one review; with `only_looks`, without linters that run code of the project."""

    def __init__(self, turn: Turn, project: Project, commands: Commands, *, only_looks: bool = False) -> None:
        self._turn, self._project, self._commands = turn, project, commands
        self._only_looks = only_looks
        self._remarks: list[str] = []
        self._allowed: set[str] = set()  # programs that the user has allowed in this turn
        self._steps: dict[str, s.PlanEntryStatus] = {}
        self._depths: dict[str, set[Depth]] = {}  # how closely each file was checked

    async def read(self, request: ReviewRequest) -> list[Source]:
        """Read the files of a request, as one tool call."""
        async with self._turn.tool("Read the files", kind="read") as call:
            await call.start()
            sources = await self._project.sources(request, _progress(call, "Read"))
            await call.update(
                title=f"Read {counted(len(sources), 'file')}",
                locations=[s.ToolCallLocation(path=self._project.absolute(f.path)) for f in sources[:MOST_SHOWN]],
            )
        return sources

    async def make(self, sources: Sequence[Source], analysers: Sequence[Analyser] | None = None) -> ReviewOutcome:
        """Run all analysers on the files, side by side."""
        if analysers is None:
            analysers = analysers_for(sources, self._project.cwd, self._commands)
        self._steps = {a.name: "pending" if self._must_ask(a) else "in_progress" for a in analysers}
        await self._show_plan()
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._run(analyser)) for analyser in analysers]
        return self._outcome(sources, [finding for task in tasks for finding in task.result()])

    async def again(self, sources: Sequence[Source]) -> ReviewOutcome:
        """Check repaired files again, as one tool call."""
        analysers = analysers_for(sources, self._project.cwd, self._commands)
        found: list[Finding] = []
        async with self._turn.tool(f"Check {counted(len(sources), 'repaired file')} again", kind="search") as call:
            await call.start()
            for analyser in analysers:
                if not self._must_ask(analyser):
                    with suppress(CommandError):
                        found += await self._looked(analyser, call)
            outcome = self._outcome(sources, found)
            await call.update(
                title=f"Check {counted(len(sources), 'repaired file')} again: "
                f"{counted(len(outcome.findings), 'finding')} left"
            )
        return outcome

    def _outcome(self, sources: Sequence[Source], found: Sequence[Finding]) -> ReviewOutcome:
        seen = {source.path: self._depths.get(source.path, set()) for source in sources}
        apart: dict[str, list[str]] = {}
        for source in sources:
            if source.apart:
                apart.setdefault(source.apart, []).append(source.path)
        told = [f"{some(paths)}: {why}, so it was only searched for secrets" for why, paths in apart.items()]
        text = [source for source in sources if source.text.strip() and not source.apart]
        code = [source for source in text if not is_prose(source.path)]
        return ReviewOutcome(
            sources,
            without_echoes(under_review(found, sources)),
            [*self._project.skipped, *self._remarks, *told],
            unknown=[source for source in code if seen[source.path] <= {"text"}],
            skimmed=[
                source
                for source in code
                if seen[source.path] <= {"text", "syntax"} and "syntax" in seen[source.path]
            ],
        )

    async def _without_exports(self, sources: Sequence[Source], found: Sequence[Finding]) -> Sequence[Finding]:
        """The findings without imports that only look unused, because other files of the project use them."""
        if not any(finding.code == UNUSED for finding in found):
            return found
        known = {source.path: source for source in sources if source.path.endswith((".py", ".pyi"))}
        for source in await self._project.others(".py", known):
            known[source.path] = source
        return await asyncio.to_thread(unused_everywhere, found, known)

    async def _run(self, analyser: Analyser) -> list[Finding]:
        title = f"{analyser.name}: {counted(len(analyser.sources), 'file')}"
        raw = {"command": analyser.tool.command} if analyser.tool else s.UNSET
        async with self._turn.tool(title, kind=analyser.kind, raw_input=raw) as call:
            found: list[Finding] = []
            if await self._may_run(analyser, call):
                await call.start()
                try:
                    found = await self._looked(analyser, call)
                    await self._show(analyser, found, call)
                except CommandError as exc:
                    call.fail(str(exc))
        self._steps[analyser.name] = "completed"
        await self._show_plan()
        return found

    async def _looked(self, analyser: Analyser, call: ToolRun) -> list[Finding]:
        """Run an analyser; its error is noted and raised again."""
        self._remark_unsaved(analyser)
        try:
            found = await analyser.look(_progress(call, analyser.name))
        except CommandError as exc:
            self._remark(f"{analyser.name} failed: {exc}")
            raise
        unread = set(analyser.unread)
        for source in analyser.sources:
            if source.path not in unread:
                self._depths.setdefault(source.path, set()).add(analyser.depth)
        concerned = await self._without_exports(analyser.sources, under_review(found, analyser.sources))
        return await asyncio.to_thread(_told, concerned, {source.path: source for source in analyser.sources})

    async def _show(self, analyser: Analyser, found: Sequence[Finding], call: ToolRun) -> None:
        shown = found[:MOST_SHOWN]
        places = [
            s.ToolCallLocation(path=self._project.absolute(finding.path), line=finding.line) for finding in shown
        ]
        await call.update(
            title=f"{analyser.name}: {counted(len(found), 'finding')} in {counted(len(analyser.sources), 'file')}",
            locations=places or None,
            raw_output={"count": len(found), "findings": [asdict(finding) for finding in shown]},
        )

    def _remark_unsaved(self, analyser: Analyser) -> None:
        if analyser.tool is None or analyser.tool.linter.from_stdin:
            return
        unsaved = [source.path for source in analyser.sources if not source.is_saved]
        if unsaved:
            self._remark(f"{analyser.name} reads saved files only, so it has not seen {some(unsaved)}")

    def _remark(self, remark: str) -> None:
        if remark not in self._remarks:
            self._remarks.append(remark)

    def _must_ask(self, analyser: Analyser) -> bool:
        """Whether a linter runs code of the project (settings, plugins, build scripts) that was not allowed yet."""
        tool = analyser.tool
        if tool is None or not tool.linter.runs_project_code:
            return False
        if self._only_looks:
            return True
        return tool.path not in self._allowed and tool.path not in self._turn.session.state.get(ALLOWED, ())

    async def _may_run(self, analyser: Analyser, call: ToolRun) -> bool:
        if not self._must_ask(analyser):
            return True
        assert analyser.tool
        if self._only_looks:
            call.fail("It runs code of this project, which this mode does not allow.")
            self._remark(f"{analyser.name} was not run, for it runs code of the project")
            return False
        await call.text(f"{analyser.tool.command} runs code of this project (settings, plugins or build scripts).")
        permission = await self._turn.ask(call, MAY_RUN, optional=True)
        if not permission:
            self._remark(f"{analyser.name} was not run, for it runs code of the project, which was not allowed")
            return False
        self._allowed.add(analyser.tool.path)
        if permission.option and permission.option.kind == "allow_always":
            self._turn.session.state.setdefault(ALLOWED, []).append(analyser.tool.path)
        return True

    async def _show_plan(self) -> None:
        await self._turn.plan(
            *(s.PlanEntry(content=name, priority="medium", status=status) for name, status in self._steps.items())
        )


def _progress(call: ToolRun, name: str) -> Progress:
    """Reports its progress on a tool call from time to time."""
    loop = asyncio.get_running_loop()
    shown = loop.time()

    async def show(done: int, total: int) -> None:
        nonlocal shown
        if loop.time() - shown >= PACE and done < total:
            shown = loop.time()
            await call.update(title=f"{name}: {done:,} of {counted(total, 'file')}")

    return show


def counted(number: int, noun: str) -> str:
    """A number and its noun: 1 file, 2 files."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _told(findings: Sequence[Finding], sources: Mapping[str, Source]) -> list[Finding]:
    """The findings without secrets; the findings of all analysers pass through here."""
    has_secret = {path for path in {finding.path for finding in findings} if any(secrets(sources[path]))}
    return [
        without_secrets(finding, sources[finding.path]) if finding.path in has_secret else finding
        for finding in findings
    ]

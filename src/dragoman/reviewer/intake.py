"""Carry out the commands of prompts, and report the results as text."""

import os
from collections.abc import Sequence

from msgspec.structs import asdict

from ..agent.turn import Turn
from ..errors import Error, InvalidParams
from ..schema import StopReason
from . import report
from .analysers import NOTES, of_topic
from .explanations import own_explanation, page_of
from .findings import Finding
from .git import RepositoryError
from .linters.commands import CommandError, Commands, program_named
from .project import Project, ReviewRefused
from .prompts import ReviewRequest, codes_in, understood
from .repairs.fixes import offer, repairs
from .review import Review, ReviewOutcome, counted

WHAT_IT_IS = (
    "I am Dragoman's built-in reviewer: rules and linters, no language model. Nothing leaves this machine.\n\n"
)
HELP = """What I can do:

- `/review` the whole project, `/review PATH…` files or directories, `/review diff [COMMIT]` what has changed,
  `/review staged` what is about to be committed. Files you mention (@file) or attach are reviewed as you have them
  in front of you, saved or not; so is a diff you paste.
- `/fix` (with the same words, or with codes: `/fix F401`) repairs what can be repaired without changing what the
  code does. Each change is shown as a diff first.
- `/explain CODE` or `/explain FILE:LINE` says why a finding matters.
- `/todo` lists what was left for later.
"""
UNKNOWN = "I cannot do that: I understand only the commands listed here, not free text.\n\n"
ONLY_LOOKS = "Nothing can be changed in this mode, so I only report.\n\n"
SAID = "reviewer.said"  # in the session's state: the introduction was shown
FOUND = "reviewer.found"  # the findings of the last review
MOST_REMEMBERED = 1000
TITLED = "reviewer.titled"


class PromptIntake:
    """Carries out one reviewer's prompts."""

    def __init__(self) -> None:
        self._commands = Commands()

    async def close(self) -> None:
        """End the programs that still run."""
        await self._commands.close()

    async def answer(self, turn: Turn, *, only_looks: bool = False) -> StopReason | None:
        """Carry out a prompt; with `only_looks`, no file is changed and no code of the project is run.

        A prompt that is not understood is refused, so that it does not look as if it was done.  Raises
        InvalidParams with the reason when there is nothing to review.
        """
        state = turn.session.state
        if not state.get(SAID):
            state[SAID] = True
            await turn.say(WHAT_IT_IS)
        request = understood(turn.prompt, turn.session.cwd)
        if request.unknown:
            named = ", ".join(f"{word!r}" for word in request.unknown[:5])
            why = f"{named} is no file here, no code of a finding and no revision behind `diff`"
            raise InvalidParams(f"That cannot be reviewed: {why}.", {"kind": "not_understood"})
        refusal: BaseException | None = None
        try:
            await self._do(turn, request, only_looks)
        except* (ReviewRefused, RepositoryError) as group:
            refusal = _first(group)
        if refusal:
            kind = refusal.kind if isinstance(refusal, RepositoryError) else "no_such_file"
            why = str(refusal).rstrip(".")
            raise InvalidParams(f"That cannot be reviewed: {why}.", {"kind": kind}) from refusal
        return "refusal" if request.verb == "unknown" else None

    async def _do(self, turn: Turn, request: ReviewRequest, only_looks: bool) -> None:
        match request.verb:
            case "fix" if only_looks:
                await turn.say(ONLY_LOOKS)
                await self._review(turn, request, only_looks)
            case "review":
                await self._review(turn, request, only_looks)
            case "fix":
                await self._fix(turn, request)
            case "todo":
                await self._todo(turn, request)
            case "explain":
                await self._explain(turn, request)
            case "help":
                await turn.say(HELP)
            case "unknown":
                await turn.say(UNKNOWN + HELP)

    async def _review(self, turn: Turn, request: ReviewRequest, only_looks: bool) -> None:
        project = Project(turn, self._commands)
        review = Review(turn, project, self._commands, only_looks=only_looks)
        outcome = await self._made(turn, request, project, review)
        if outcome:
            await turn.say(report.told(outcome))

    async def _made(
        self, turn: Turn, request: ReviewRequest, project: Project, review: Review
    ) -> ReviewOutcome | None:
        """Make a review; if there is nothing to review, say so and return None."""
        await _title(turn, request, project)
        sources = await review.read(request)
        if not sources:
            await turn.say(_nothing_there(request, project))
            return None
        outcome = await review.make(sources)
        _remember(turn, outcome.findings)
        return outcome

    async def _fix(self, turn: Turn, request: ReviewRequest) -> None:
        project = Project(turn, self._commands)
        review = Review(turn, project, self._commands)
        outcome = await self._made(turn, request, project, review)
        if outcome is None:
            return
        found = await repairs(outcome, codes_in(request.words), project, self._commands)
        if not found:
            words = report.told(outcome, offers_repairs=False)
            await turn.say(f"There is nothing I can repair safely.\n\n{words}")
            return
        mended = await offer(turn, project, found)
        if not mended.written:
            await turn.say("Nothing was changed.\n\n" + report.told(outcome))
            return
        again = await review.again(mended.written)
        await turn.say(report.told_of_repairs(outcome, again, mended.left))
        _remember(turn, report.still_there(outcome, again))

    async def _todo(self, turn: Turn, request: ReviewRequest) -> None:
        project = Project(turn, self._commands)
        await _title(turn, request, project)
        review = Review(turn, project, self._commands)
        sources = await review.read(request)
        analyser = of_topic(NOTES, sources, project.cwd, self._commands)
        if analyser is None:
            await turn.say(_nothing_there(request, project))
            return
        outcome = await review.make(sources, [analyser])
        found = outcome.findings
        head = f"**{counted(len(found), 'note')}** left for later." if found else "Nothing was left for later."
        await turn.say(f"{head}\n\n{report.listed(found)}".rstrip() + "\n")

    async def _explain(self, turn: Turn, request: ReviewRequest) -> None:
        last = [Finding(**finding) for finding in turn.session.state.get(FOUND, ())]
        places = {word for word in request.words if ":" in word}
        meant = [finding for finding in last if finding.place in places]
        codes = [finding.code for finding in meant] or codes_in(request.words)
        if not codes:
            await turn.say(
                "Explain what? Give a code, as in `/explain F401`, or the place of a finding: `a.py:12`.\n"
            )
            return
        for finding in meant:
            await turn.say(report.item(finding) + "\n\n")
        for code in dict.fromkeys(codes):
            await turn.say(f"**{code}**: {await self._explained(code, turn.session.cwd)}\n\n")

    async def _explained(self, code: str, cwd: str) -> str:
        if own := own_explanation(code):
            return own
        ruff = program_named("ruff", cwd)
        if ruff and code[:1].isupper():
            try:
                result = await self._commands.run([ruff, "rule", code], cwd=cwd, timeout=20)
            except CommandError:
                result = None
            if result and result.code == 0:
                return result.stdout.decode(errors="replace").strip()
        page = page_of(code)
        return f"see {page}" if page else "I have no explanation for it; its linter's documentation has."


def _remember(turn: Turn, findings: Sequence[Finding]) -> None:
    """Keep findings for `/explain`, in a form that a stored session can contain."""
    turn.session.state[FOUND] = [asdict(finding) for finding in findings[:MOST_REMEMBERED]]


async def _title(turn: Turn, request: ReviewRequest, project: Project) -> None:
    """Name the session after its first task."""
    if turn.session.state.get(TITLED):
        return
    turn.session.state[TITLED] = True
    files = [os.path.basename(path) for path in (*request.paths, *(file.path for file in request.attached))]
    extents = {"staged": "staged changes", "changes": "changes", "diff": "a diff"}
    what = extents.get(request.extent) or ", ".join(files[:3]) or project.name
    verbs = {"fix": "Fix", "todo": "Notes in"}
    await turn.session.set_title(f"{verbs.get(request.verb, 'Review of')} {what}"[:120])


def _nothing_there(request: ReviewRequest, project: Project) -> str:
    empty = {"staged": "Nothing is staged.", "changes": "Nothing has changed.", "diff": "The diff adds nothing."}
    word = empty.get(request.extent, "There is no text file to look at.")
    if project.skipped and request.extent in ("staged", "changes"):
        word = "There are no new lines to review."
    remarks = "".join(f"\n- Note: {remark}." for remark in project.skipped[:20])
    return f"{word}{remarks}\n"


def _first(group: BaseExceptionGroup[Error]) -> BaseException:
    """The first exception in a group of groups."""
    exc: BaseException = group
    while isinstance(exc, BaseExceptionGroup):
        exc = exc.exceptions[0]
    return exc

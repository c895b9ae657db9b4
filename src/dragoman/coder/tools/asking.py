"""Tools for the plan, questions to the user, helpers and skills."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta, Struct

from ... import schema as s
from ..context.history import Part, TextPart
from ..permissions import Cancelled, Denied
from ..workplace import Workplace
from .tool import Failed, Tool, Work, said

if TYPE_CHECKING:
    from ..exploring import Assistants

APPROVALS = (
    s.PermissionOption(option_id="code", name="Yes, and edit without asking", kind="allow_always"),
    s.PermissionOption(option_id="ask", name="Yes, and ask before each change", kind="allow_once"),
    s.PermissionOption(option_id="plan", name="No, keep planning", kind="reject_once"),
)


class PlanStep(Struct, frozen=True):
    content: str
    status: Literal["pending", "in_progress", "completed"] = "pending"
    priority: Literal["high", "medium", "low"] = "medium"


class UpdatePlan(Tool):
    """Show the user your list of steps. Send the whole list each time; keep exactly one step in progress. Use it
    for work of three steps or more."""

    name = "update_plan"
    kind = "think"

    steps: Annotated[list[PlanStep], Meta(max_length=50)]

    def title(self, place: Workplace) -> str:
        """Announce the plan's update."""
        return "Update the plan"

    async def run(self, work: Work) -> Sequence[Part]:
        """Show the user the plan as it is now."""
        entries = [
            s.PlanEntry(content=step.content, status=step.status, priority=step.priority) for step in self.steps
        ]
        await work.turn.plan(*entries)
        return [TextPart("The user sees the plan.")]


class AskUser(Tool):
    """Ask the user a question that you cannot answer from the code, and wait for the answer."""

    name = "ask_user"

    question: str
    choices: Annotated[list[str], Meta(max_length=10, description="Answers to choose from, if there are few.")] = []

    def title(self, place: Workplace) -> str:
        """Quote the question."""
        return self.question

    async def run(self, work: Work) -> Sequence[Part]:
        """Ask the user and return the answer."""
        field = s.StringPropertySchema(title="Answer", enum=self.choices or None)
        form = s.ElicitationSchema(properties={"answer": field}, required=["answer"])
        answer = await work.turn.elicit(self.question, form, tool_call_id=work.call.id)
        if answer is None:
            raise Denied("The user would not answer; go on as you think best, or end.")
        return [TextPart(str(answer.get("answer", "")))]


class ExitPlan(Tool):
    """Hand in your plan for approval. When the user approves it you can begin; when not, improve it."""

    name = "exit_plan"
    kind = "switch_mode"

    plan: Annotated[str, Meta(min_length=1, description="The whole plan, in Markdown.")]

    def title(self, place: Workplace) -> str:
        """Announce the plan."""
        return "Ready to begin?"

    async def run(self, work: Work) -> Sequence[Part]:
        """Show the plan and, if the user agrees, switch to a mode that may change files."""
        session = work.place.session
        if session.mode != "plan":
            raise Failed("There is no plan to hand in: the session is not in the mode 'plan'.")
        await work.call.text(self.plan)
        permission = await work.turn.ask(work.call, APPROVALS)
        if permission.option is None:
            raise Cancelled("the question was taken away")
        if not permission:
            raise Denied("The user wants you to keep planning.")
        if session.mode != "plan":
            raise Failed("The mode was changed meanwhile.")
        await work.set_mode(permission.option.option_id)
        return [TextPart(f"The user approved the plan. Begin; the session is in the mode {session.mode!r} now.")]


def _assistance(work: Work) -> "Assistants":
    if work.helpers is None:
        raise Failed("A helper cannot send another one.")
    return work.helpers


async def _report(work: Work, report: str) -> Sequence[Part]:
    """Show a helper's report and return it to the model."""
    await work.call.text(report)
    return said(work.place, report, work.call.id)


class Task(Tool):
    """Have a helper study the project and report. For wide questions with a short answer, such as where and how
    something is done; it can read and search but change nothing, and it knows nothing of this conversation, so
    tell it all it needs. Several calls at once run beside each other."""

    name = "task"
    kind = "think"
    parallel = True

    task: Annotated[str, Meta(min_length=1, description="What to find out, and what to report.")]

    def title(self, place: Workplace) -> str:
        """Quote the task."""
        return f"Explore: {self.task}"

    async def run(self, work: Work) -> Sequence[Part]:
        """Have a helper study the project and return its report."""
        return await _report(work, await _assistance(work).explore(self.task))


class AskAssistant(Tool):
    """Hand a task to one of the helpers you were told of. It knows nothing of this conversation, so tell it all it
    needs; you get its last message."""

    name = "ask_helper"
    kind = "think"

    helper: Annotated[str, Meta(description="The helper's name.")]
    task: Annotated[str, Meta(min_length=1, description="What to do, and what to report.")]

    def title(self, place: Workplace) -> str:
        """Name the assistant and its task."""
        return f"{self.helper}: {self.task}"

    async def run(self, work: Work) -> Sequence[Part]:
        """Give the assistant its task and return its report."""
        return await _report(work, await _assistance(work).ask(work.call, self.helper, self.task))


class UseSkill(Tool):
    """Read the instructions of a skill before you do what it is for."""

    name = "use_skill"
    kind = "read"
    parallel = True

    skill: Annotated[str, Meta(description="The skill's name.")]

    def title(self, place: Workplace) -> str:
        """Name the skill."""
        return f"Use the skill {self.skill}"

    async def run(self, work: Work) -> Sequence[Part]:
        """Return the skill's instructions."""
        skill = work.skills.get(self.skill)
        if skill is None:
            raise Failed(f"There is no skill {self.skill!r}; there are: {', '.join(work.skills) or 'none'}.")
        return [TextPart(f"{skill.body}\n\n(Files of this skill are in {skill.directory}.)")]

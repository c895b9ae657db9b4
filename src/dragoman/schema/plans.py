"""What the agent means to do: the one plan of a session, or several by id."""

from collections.abc import Sequence
from typing import Literal

from .base import Lenient, Model, Raw

PlanId = str
PlanEntryPriority = Literal["high", "medium", "low"]
PlanEntryStatus = Literal["pending", "in_progress", "completed"]


class PlanEntry(Model, kw_only=True):
    """One step of a plan."""

    content: str
    priority: PlanEntryPriority
    status: PlanEntryStatus


class Plan(Model, tag_field="sessionUpdate", tag="plan", kw_only=True):
    """The whole plan, every time: it replaces the one before."""

    entries: Lenient[Sequence[PlanEntry]]


class PlanItems(Model, tag_field="type", tag="items", kw_only=True):
    """A plan as a list of steps."""

    plan_id: PlanId
    entries: Lenient[Sequence[PlanEntry]]


class PlanFile(Model, tag_field="type", tag="file", kw_only=True):
    """A plan kept in a file."""

    plan_id: PlanId
    uri: str


class PlanMarkdown(Model, tag_field="type", tag="markdown", kw_only=True):
    """A plan as Markdown text."""

    plan_id: PlanId
    content: str


PlanUpdateContent = PlanItems | PlanFile | PlanMarkdown | Raw


class PlanUpdate(Model, tag_field="sessionUpdate", tag="plan_update", kw_only=True):
    """Creates the plan of that id or replaces it."""

    plan: PlanUpdateContent


class PlanRemoved(Model, tag_field="sessionUpdate", tag="plan_removed", kw_only=True):
    """The plan of that id is withdrawn."""

    plan_id: PlanId

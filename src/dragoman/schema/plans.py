"""What the agent means to do: the one plan of a session, or several by id."""

from collections.abc import Sequence
from typing import Literal

from .base import Lenient, Model, Raw

PlanId = str
PlanEntryPriority = Literal["high", "medium", "low"]
PlanEntryStatus = Literal["pending", "in_progress", "completed"]


class PlanEntry(Model):
    content: str
    priority: PlanEntryPriority
    status: PlanEntryStatus


class Plan(Model, tag_field="sessionUpdate", tag="plan"):
    """The whole plan, every time: it replaces the one before."""

    entries: Lenient[Sequence[PlanEntry]]


class PlanItems(Model, tag_field="type", tag="items"):
    plan_id: PlanId
    entries: Lenient[Sequence[PlanEntry]]


class PlanFile(Model, tag_field="type", tag="file"):
    """A plan kept in a file."""

    plan_id: PlanId
    uri: str


class PlanMarkdown(Model, tag_field="type", tag="markdown"):
    plan_id: PlanId
    content: str


PlanUpdateContent = PlanItems | PlanFile | PlanMarkdown | Raw


class PlanUpdate(Model, tag_field="sessionUpdate", tag="plan_update"):
    """Creates the plan of that id or replaces it."""

    plan: PlanUpdateContent


class PlanRemoved(Model, tag_field="sessionUpdate", tag="plan_removed"):
    plan_id: PlanId

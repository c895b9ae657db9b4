"""What the agent means to do: the plans of a session, each by its id."""

from collections.abc import Sequence
from typing import Literal

from ..base import Model, Raw, Sifted
from ..plans import PlanFile, PlanId, PlanMarkdown

PlanEntryPriority = Literal["high", "medium", "low"] | str
PlanEntryStatus = Literal["pending", "in_progress", "completed", "cancelled"] | str


class PlanEntry(Model, kw_only=True):
    """One step of a plan."""

    content: str
    priority: PlanEntryPriority
    status: PlanEntryStatus


class PlanItems(Model, tag_field="type", tag="items", kw_only=True):
    """A plan as a list of steps."""

    plan_id: PlanId
    entries: Sifted[Sequence[PlanEntry]]


PlanUpdateContent = PlanItems | PlanFile | PlanMarkdown | Raw


class PlanUpdate(Model, tag_field="sessionUpdate", tag="plan_update", kw_only=True):
    """Creates the plan of that id or replaces it."""

    plan: PlanUpdateContent

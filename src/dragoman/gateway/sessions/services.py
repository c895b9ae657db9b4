"""The services of the gateway for its sessions."""

from typing import TYPE_CHECKING, Protocol, TypeVar

from ...foundation.owning import Work
from ..access.budget import GatewayBudget
from ..access.limits import Limits
from ..access.workspaces import Workspaces
from ..agents.processes import Processes
from ..log.clock import IncreasingClock
from ..log.engine import Engine
from ..log.session_facts import SessionFacts
from ..metrics import Metrics

if TYPE_CHECKING:
    from .hosted_session import HostedSession


T = TypeVar("T")


class SessionServices(Protocol):
    engine: Engine
    budget: GatewayBudget
    metrics: Metrics
    processes: Processes
    workspaces: Workspaces
    clock: IncreasingClock
    is_draining: bool  # the gateway begins nothing new

    @property
    def limits(self) -> Limits: ...

    async def save_facts(self, id: str, facts: SessionFacts) -> None:
        """Store the facts of a session."""

    def let_go(self, session: "HostedSession") -> None:
        """Close a session that another process holds by now."""

    async def finish(self, work: Work[T]) -> T:
        """Run a task to its end even if its caller is cancelled."""

    def start(self, work: Work[object]) -> object:
        """Run a task in the background."""

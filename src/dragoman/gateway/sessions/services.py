"""What a session needs of the gateway it is at."""

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
    is_draining: bool  # nothing new is begun

    @property
    def limits(self) -> Limits: ...

    async def save_facts(self, id: str, facts: SessionFacts) -> None:
        """Keep what is known of a session besides its log."""

    def let_go(self, session: "HostedSession") -> None:
        """Close a session that is somebody else's by now."""

    async def finish(self, work: Work[T]) -> T:
        """Have something done to its end, also when whoever waits for it is cancelled."""

    def start(self, work: Work[object]) -> object:
        """Have something done that nobody waits for."""

"""What a session needs of the gateway it is at."""

from typing import TYPE_CHECKING, Protocol

from .engine import Engine
from .limits import Limits
from .metrics import Metrics
from .upstream import Upstream

if TYPE_CHECKING:
    from .shared import Shared


class Desk(Protocol):
    engine: Engine
    limits: Limits
    metrics: Metrics

    async def upstream(self, agent: str, principal: str) -> Upstream:
        """A running agent of a principal, started if need be."""

    async def save(self, shared: "Shared") -> None:
        """Keep what is known of a session."""

    def let_go(self, shared: "Shared") -> None:
        """Forget a session that can no longer be written to; it is opened anew when somebody wants it."""

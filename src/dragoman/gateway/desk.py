"""What a session needs of the gateway it is at."""

from typing import TYPE_CHECKING, Protocol

from .card import Card
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

    async def upstream(self, agent: str, principal: str, session: str) -> Upstream:
        """A running agent of a principal, started if need be; of a session, if each has its own."""

    async def save_card(self, id: str, card: Card) -> None:
        """Keep what is known of a session besides its log."""

    def let_go(self, shared: "Shared") -> None:
        """Forget a session that can no longer be written to; it is opened anew when somebody wants it."""

"""What a session needs of the gateway it is at."""

from typing import TYPE_CHECKING, Protocol

from .card import Card
from .engine import Engine
from .limits import Limits
from .metrics import Metrics
from .processes import Processes

if TYPE_CHECKING:
    from .shared import Shared


class Desk(Protocol):
    engine: Engine
    limits: Limits
    metrics: Metrics
    processes: Processes

    async def save_card(self, id: str, card: Card) -> None:
        """Keep what is known of a session besides its log."""

    def let_go(self, shared: "Shared") -> None:
        """Forget a session that can no longer be written to; it is opened anew when somebody wants it."""

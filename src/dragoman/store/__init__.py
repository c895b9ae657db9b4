"""Sessions that survive: `durable(MyAgent)` gives any agent list, load, resume, fork, delete, archive, titles."""

from .durable import durable
from .errors import SessionBusy, SessionCorrupted, SessionExpired, SessionTaken, SessionUnknown, StoreFailure
from .store import Store

__all__ = [
    "SessionBusy",
    "SessionCorrupted",
    "SessionExpired",
    "SessionTaken",
    "SessionUnknown",
    "Store",
    "StoreFailure",
    "durable",
]

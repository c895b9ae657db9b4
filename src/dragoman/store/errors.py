"""Errors of stored sessions; each is the answer that a client gets."""

from ..errors import InternalError, InvalidRequest, ResourceNotFound


class SessionUnknown(ResourceNotFound):
    """There is no such session, or no longer."""

    def __init__(self, id: str) -> None:
        super().__init__("Session not found", {"sessionId": id})


class SessionExpired(ResourceNotFound):
    """The session was not used for longer than the store keeps sessions."""

    def __init__(self, id: str) -> None:
        super().__init__("Session expired", {"sessionId": id})


class SessionCorrupted(InternalError):
    """Nothing of the session can be read any more."""

    def __init__(self, id: str, why: str) -> None:
        super().__init__("Session corrupted", {"sessionId": id, "reason": why})


class SessionBusy(InvalidRequest):
    """Somebody else has the session open."""

    def __init__(self, id: str, holder: str) -> None:
        super().__init__(f"The session is open {holder}; close it there first", {"sessionId": id})


class SessionTaken(InvalidRequest):
    """A new session was to have the id of another."""

    def __init__(self, id: str) -> None:
        super().__init__(f"there is a session {id} already; another needs another id", {"sessionId": id})


class StoreFailure(InternalError):
    """The store cannot be read or written; an update that was not stored was not sent either."""

"""Errors of stored sessions; each is sent to the client as the answer."""

from ..errors import InternalError, InvalidRequest, ResourceNotFound


class SessionUnknown(ResourceNotFound):
    """The session does not exist, or no longer exists."""

    def __init__(self, id: str) -> None:
        super().__init__("Session not found", {"sessionId": id})


class SessionExpired(ResourceNotFound):
    """The session was not used for longer than the store keeps sessions."""

    def __init__(self, id: str) -> None:
        super().__init__("Session expired", {"sessionId": id})


class SessionCorrupted(InternalError):
    """The session cannot be read any more."""

    def __init__(self, id: str, why: str) -> None:
        super().__init__("Session corrupted", {"sessionId": id, "reason": why})


class SessionBusy(InvalidRequest):
    """Another process or connection has the session open."""

    def __init__(self, id: str, holder: str) -> None:
        super().__init__(f"The session is open {holder}; close it there first", {"sessionId": id})


class SessionTaken(InvalidRequest):
    """A new session was given an id that is in use."""

    def __init__(self, id: str) -> None:
        super().__init__(f"there is a session {id} already; choose another id", {"sessionId": id})


class StoreFailure(InternalError):
    """The store cannot be read or written; an update that was not stored was not sent either."""

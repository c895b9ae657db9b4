"""Approvals for longer than once: for a session, and in the file of `approvals`."""

import logging
import secrets
import time

from ..display import visible
from ..operations import Operation
from .approvals import MAX_APPROVALS, Approval, ApprovalQuery, ApprovalsError, ApprovalStore, Scope
from .rules.matching import Circumstances

log = logging.getLogger("dragoman")


class Memory:
    """All stored approvals; each ends after `lifetime` seconds, whatever its scope."""

    def __init__(self, store: ApprovalStore | None, lifetime: float) -> None:
        self.store = store
        self._lifetime = lifetime
        self._in_session: dict[str, list[Approval]] = {}

    def all(self) -> tuple[Approval, ...]:
        now = time.time()
        kept = [each for approvals in self._in_session.values() for each in approvals if each.holds(now)]
        return (*kept, *(self.store.approvals() if self.store else ()))

    def find(self, session_id: str, operation: Operation, place: Circumstances) -> Approval | None:
        """The approval that allows an operation in a session now, if there is one."""
        asked = ApprovalQuery(operation.fingerprint(), place.agent, place.workspace, session_id)
        if here := asked.among(self._in_session.get(session_id, ())):
            return here
        return self.store.find(asked.fingerprint, asked.agent, asked.workspace) if self.store else None

    def keep(self, session_id: str, operation: Operation, place: Circumstances, scope: Scope) -> bool:
        """Store an approval for its scope; false if it cannot be stored."""
        now = time.time()
        approval = Approval(
            id=secrets.token_hex(8),
            fingerprint=operation.fingerprint(),
            operation=operation.kind,
            subject=visible(operation.subject, limit=400),
            scope=scope,
            agent=place.agent,
            workspace=(place.workspace or "") if scope == "workspace" else "",
            session=session_id if scope == "session" else "",
            created=now,
            expires=now + self._lifetime,
        )
        if scope == "session":
            kept = [each for each in self._in_session.get(session_id, ()) if now < each.expires]
            self._in_session[session_id] = [*kept[-MAX_APPROVALS + 1 :], approval]
            return True
        try:
            if self.store:
                self.store.remember(approval)
        except ApprovalsError as exc:
            log.warning("an approval could not be kept: %s", exc)
            return False
        return True

    def revoke(self, id: str | None) -> int:
        """Remove one approval or all; returns how many there were."""
        count = 0
        for session_id, approvals in self._in_session.items():
            kept = [approval for approval in approvals if id is not None and approval.id != id]
            count += len(approvals) - len(kept)
            self._in_session[session_id] = kept
        return count + (self.store.revoke(id) if self.store else 0)

    def forget_session(self, session_id: str) -> None:
        self._in_session.pop(session_id, None)

"""Whether a host may do something for an agent, and what it answers an agent that asks.

A decision looks at the operation the host is about to perform and at nothing else: what the agent calls it, shows
or offers is for the user's eyes.  The first of these that applies decides:

    no      the operation cannot be what it says; the session is closed, or the user ended its turn
    no      the preset `deny`
    no      a deny rule
    ask     a protected path, a dangerous variable, an address nobody can read: allowed once at most
    ask     an ask rule: allowed once at most
    yes     an allow rule
    yes     the preset, as far as it goes
    yes     the user allowed exactly this before, for the session, the workspace or always
    ask     everything else

Failing to ask is a no, and so is failing to write down (`audit`) what is allowed.  `session/request_permission` is
the agent's own question about what it does by itself: `allow-all` and `deny` answer it, otherwise the user does.
"""

import asyncio
import logging
import os
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal, get_args

import msgspec
from msgspec import Struct

from ... import schema as s
from ..display import visible
from ..operations import KINDS, Execute, FileOperation, Operation
from . import claims, scrutiny
from .approvals import LIFETIME, Approval, ApprovalsError, ApprovalStore, Scope, default_path
from .matching import Place, is_in
from .protected import has_other_names, protected_twin
from .questions import CANCELLED, Asker, Questions, about
from .rules import Rules, Verdict, user_file

log = logging.getLogger("dragoman")

Preset = Literal["ask", "allow-reads", "allow-edits", "allow-all", "deny"]
PRESETS: tuple[Preset, ...] = get_args(Preset)
MAX_CLOSED = 10_000  # closed sessions that are remembered as closed

_ALLOWED_BY: dict[Preset, frozenset[str]] = {
    "ask": frozenset(),
    "allow-reads": frozenset({"file_read"}),
    "allow-edits": frozenset({"file_read", "file_write"}),
    "allow-all": frozenset(KINDS),
    "deny": frozenset(),
}

Audit = Callable[[Mapping[str, Any]], Awaitable[object]]


class Decision(Struct, frozen=True):
    """Whether something may be done, why, and for how long the answer holds; true when it may."""

    allowed: bool
    why: str
    rule: str | None = None  # where the rule stands that decided
    scope: Scope | None = None  # how far the user's answer reaches
    asked: bool = False  # the user answered
    cancelled: bool = False

    def __bool__(self) -> bool:
        return self.allowed


class _Situation(Struct, frozen=True):
    """An operation, where it would take place, and why it must be asked about, should it have to be."""

    session_id: str
    names: tuple[Operation, ...]  # as it was given, and last with the real path
    place: Place
    roots: tuple[str, ...]
    doubts: tuple[str, ...]

    @property
    def operation(self) -> Operation:
        return self.names[0]


class Permissions:
    """Decides for all sessions of one client.

    `asker` shows a question and gives the id of the option the user chose; `store` keeps what is allowed for longer
    than a session; `audit` is awaited with every decision before it counts; `agent` is the name the user knows the
    agent by, never the one it gives itself; `protected` are further paths to always ask about.
    """

    def __init__(
        self,
        preset: Preset = "ask",
        rules: Rules | None = None,
        asker: Asker | None = None,
        store: ApprovalStore | None = None,
        *,
        audit: Audit | None = None,
        agent: str = "",
        protected: Sequence[str | os.PathLike[str]] = (),
        timeout: float | None = None,
        arming: float = 0.0,
        lifetime: float = LIFETIME,
    ) -> None:
        self.preset = preset
        self.rules = rules or Rules()
        self.store = store
        self.agent = agent
        self._questions = Questions(asker, timeout=timeout, arming=arming)
        self._audit = audit
        own = [user_file().parent, default_path().parent, *protected, *([store.path] if store else ())]
        self._protected = tuple(os.path.realpath(path) for path in own)
        self._lifetime = lifetime
        self._in_session: dict[str, list[Approval]] = {}
        self._session_rules: dict[str, Rules] = {}
        self._epochs: dict[str, int] = {}  # counts what made the answers in the works worthless
        self._closed: dict[str, None] = {}

    @property
    def preset(self) -> Preset:
        return self._preset

    @preset.setter
    def preset(self, preset: Preset) -> None:
        if preset not in PRESETS:
            raise ValueError(f"there is no preset {preset!r}; there are: {', '.join(PRESETS)}")
        self._preset = preset

    # Sessions

    def open_session(self, session_id: str, rules: Rules | None = None) -> None:
        """A session begins, or is there again after it had been closed; `rules` are those of its workspace."""
        self._closed.pop(session_id, None)
        self._session_rules[session_id] = rules or Rules()

    def begin_turn(self, session_id: str) -> None:
        """A new turn: what the user denied for the rest of the last one may be asked again."""
        self._questions.unsilence(session_id)

    def deny_turn(self, session_id: str) -> None:
        """Deny everything in a session until its next turn."""
        self._questions.silence(session_id)

    def cancel(self, session_id: str) -> None:
        """Answer every open question of a session `cancelled`."""
        self._epochs[session_id] = self._epochs.get(session_id, 0) + 1
        self._questions.withdraw(session_id)

    def close_session(self, session_id: str) -> None:
        """Allow nothing more in a session, and forget what was allowed for its time."""
        self._closed[session_id] = None
        self._in_session.pop(session_id, None)
        self._session_rules.pop(session_id, None)
        self.cancel(session_id)
        self._questions.unsilence(session_id)
        while len(self._closed) > MAX_CLOSED:
            self._closed.pop(oldest := next(iter(self._closed)))
            self._epochs.pop(oldest, None)

    # What was allowed before

    def approvals(self) -> tuple[Approval, ...]:
        """Everything the user has allowed for longer than once."""
        in_sessions = [approval for approvals in self._in_session.values() for approval in approvals]
        return (*in_sessions, *(self.store.approvals() if self.store else ()))

    def revoke(self, id: str | None = None) -> int:
        """Take back one approval by its id, or all of them; gives how many there were."""
        count = 0
        for approvals in self._in_session.values():
            kept = [approval for approval in approvals if id is not None and approval.id != id]
            count += len(approvals) - len(kept)
            approvals[:] = kept
        return count + (self.store.revoke(id) if self.store else 0)

    # Deciding

    async def decide(
        self,
        session_id: str,
        operation: Operation,
        *,
        workspace: str | os.PathLike[str] | None = None,
        directories: Sequence[str | os.PathLike[str]] = (),
        detail: str | Callable[[], str] = "",
    ) -> Decision:
        """Whether the host may do this now; it never raises, and whatever fails is a no.

        `workspace` is the session's directory, `directories` its further ones; `detail`, such as a diff, is shown,
        and made in a thread if there is something to ask and it is a function.
        """
        epoch = self._epochs.get(session_id, 0)
        try:
            told = scrutiny.told(operation)
            if why := scrutiny.impossible(operation):
                return await self._noted(session_id, epoch, told, Decision(False, why))
            try:
                situation = await self._situation(session_id, operation, workspace, directories)
            except OSError as exc:  # somebody changes what is there while it is looked at
                no = Decision(False, f"its path cannot be looked at: {exc.strerror}")
                return await self._noted(session_id, epoch, told, no)
            decision = self._settled(situation)
            if decision is None:
                decision = await self._asked(situation, detail)
            return await self._noted(session_id, epoch, told, decision, situation)
        except Exception:
            log.exception("a permission could not be decided")
            return Decision(False, "it could not be decided")

    async def answer(self, params: s.RequestPermissionRequest) -> s.RequestPermissionResponse:
        """The answer to an agent that asks for permission."""
        epoch = self._epochs.get(params.session_id, 0)
        no = claims.preferred(params, "reject_once", "reject_always")
        try:
            if why := claims.malformed(params):
                no = None  # whatever was chosen might mean something else to the agent
                option, decision = None, Decision(False, f"the request is misleading: {why}")
            else:
                option, decision = await self._claim_decided(params)
            decision = await self._noted(params.session_id, epoch, claims.told(params), decision)
        except Exception:
            log.exception("a permission request could not be answered")
            return claims.response(no)
        if decision.cancelled:
            return claims.response(None)
        is_answer = option is not None and option.kind.startswith("allow") == decision.allowed
        return claims.response(option if is_answer else no)

    async def _claim_decided(
        self, params: s.RequestPermissionRequest
    ) -> tuple[s.PermissionOption | None, Decision]:
        if (refusal := self._refused(params.session_id)) is not None:
            return None, refusal
        if self.preset == "allow-all":
            option = claims.preferred(params, "allow_once", "allow_always")
            return option, Decision(option is not None, "the preset allow-all")
        question = await asyncio.to_thread(claims.about_claim, params)  # comparing long texts takes a while
        reply = await self._questions.ask(question)
        option = claims.chosen(params, reply.option)
        allows = option is not None and option.kind.startswith("allow")
        decision = Decision(allows, reply.why, asked=reply.option is not None, cancelled=reply.cancelled)
        refusal = self._refused(params.session_id)  # the preset or the session may have changed meanwhile
        return option, refusal if allows and refusal is not None else decision

    def _refused(self, session_id: str) -> Decision | None:
        """The no that holds for everything in a session, if one does."""
        if session_id in self._closed:
            return Decision(False, "the session is closed")
        if self._questions.is_silenced(session_id):
            return Decision(False, "the user denied everything for the rest of this turn")
        if self.preset == "deny":
            return Decision(False, "the preset deny")
        return None

    async def _situation(
        self,
        session_id: str,
        operation: Operation,
        workspace: str | os.PathLike[str] | None,
        directories: Sequence[str | os.PathLike[str]],
    ) -> _Situation:
        roots = tuple(os.path.realpath(path) for path in ([workspace] if workspace else []) + [*directories])
        place = Place(roots[0] if workspace else None, self.agent, time.time())
        names = scrutiny.names(operation)
        doubts = [doubt for name in names for doubt in scrutiny.doubts(name, self._protected)]
        is_shared = not doubts and isinstance(operation, FileOperation) and has_other_names(operation.path)
        if is_shared and (twin := await asyncio.to_thread(protected_twin, operation.subject, roots)):
            doubts.append(f"this file is also {visible(twin)}, which is protected")
        return _Situation(session_id, names, place, roots, tuple(dict.fromkeys(doubts)))

    def _settled(self, situation: _Situation) -> Decision | None:
        """What can be decided without asking."""
        operation = situation.operation
        if (refusal := self._refused(situation.session_id)) is not None:
            return refusal
        verdict = self._judged(situation)
        if verdict and verdict.effect == "deny":
            reason = f": {visible(verdict.why)}" if verdict.why else ""
            return Decision(False, f"a rule denies it{reason}", verdict.rule.where)
        if situation.doubts or (verdict and verdict.effect == "ask"):
            return None
        if verdict:
            return Decision(True, "a rule allows it", verdict.rule.where)
        if self._preset_allows(situation):
            return Decision(True, f"the preset {self.preset}")
        fingerprint, place = operation.fingerprint(), situation.place
        for approval in self._in_session.get(situation.session_id, ()):
            if approval.fingerprint == fingerprint and approval.agent == place.agent:
                return Decision(True, "the user allowed it before", scope="session")
        if self.store and (found := self.store.find(fingerprint, place.agent, place.workspace)):
            return Decision(True, "the user allowed it before", scope=found.scope)
        return None

    def _preset_allows(self, situation: _Situation) -> bool:
        if situation.operation.kind not in _ALLOWED_BY[self.preset]:
            return False
        if self.preset == "allow-all" or not situation.roots:
            return True
        real = situation.names[-1]  # the presets between all and nothing are about files
        return any(is_in(real.subject, root) for root in situation.roots)

    def _judged(self, situation: _Situation) -> Verdict | None:
        """What the rules say of an operation under the name it was given and under its real one."""
        operation, place = situation.operation, situation.place
        rules = self.rules + self._session_rules.get(situation.session_id, Rules())
        verdicts = [rules.judge(name, place) for name in situation.names]
        for effect in ("deny", "ask"):
            for verdict in verdicts:
                if verdict and verdict.effect == effect:
                    return verdict
        verdict = verdicts[0] if all(verdicts) else None
        if verdict and verdict.rule.is_open and isinstance(operation, Execute):
            further = operation.argv[len(verdict.rule.argv or ()) :]
            if any(scrutiny.names_protected(word, operation.cwd, self._protected) for word in further):
                return Verdict("ask", verdict.rule, "one of the arguments is a protected path")
        return verdict

    async def _asked(self, situation: _Situation, detail: str | Callable[[], str]) -> Decision:
        verdict = self._judged(situation)
        scopes: list[Scope] = ["once"]
        if not situation.doubts and verdict is None:
            scopes.append("session")
            if self.store:
                scopes += ["workspace", "always"] if situation.place.workspace else ["always"]
        warnings = [*situation.doubts]
        if verdict:
            warnings.append(f"{verdict.why or 'a rule says to ask'}: {verdict.rule.where}")
        shown = detail if isinstance(detail, str) else await asyncio.to_thread(detail)
        question = about(situation.operation, situation.session_id, scopes=scopes, warnings=warnings, detail=shown)
        reply = await self._questions.ask(question)
        where = verdict.rule.where if verdict else None
        if reply.option is None:
            return Decision(False, reply.why, where, cancelled=reply.cancelled)
        if not reply.option.allows:
            return Decision(False, reply.why, where, asked=True)
        now = self._settled(situation)  # the rules, the preset or the session may have changed meanwhile
        if now is not None and not now.allowed:
            return now
        return Decision(True, reply.why, where, reply.option.scope, asked=True)

    async def _noted(
        self,
        session_id: str,
        epoch: int,
        told: Mapping[str, Any],
        decision: Decision,
        situation: _Situation | None = None,
    ) -> Decision:
        """Have a decision written down before it counts; what cannot be is a no, and so is what came too late."""
        written = await self._write(session_id, told, decision)
        if not decision.allowed:
            return decision
        if not written:
            return Decision(False, "it could not be written to the audit log")
        too_late = self._too_late(session_id, epoch)
        if too_late is None and situation and decision.asked:
            decision = await self._remember(situation, decision)
            too_late = self._too_late(session_id, epoch)
        if too_late is None:
            return decision
        await self._write(session_id, told, too_late)
        return too_late

    def _too_late(self, session_id: str, epoch: int) -> Decision | None:
        """The no that came while a yes was written down."""
        if self._epochs.get(session_id, 0) != epoch:
            return Decision(False, CANCELLED.why, cancelled=True)
        return self._refused(session_id)

    async def _write(self, session_id: str, told: Mapping[str, Any], decision: Decision) -> bool:
        if self._audit is None:
            return True
        outcome = "cancel" if decision.cancelled else "allow" if decision.allowed else "deny"
        event = {"event": "decision", "session": session_id, "agent": self.agent, **told, "decision": outcome}
        more = {"why": decision.why, "rule": decision.rule, "scope": decision.scope, "asked": decision.asked}
        try:
            await self._audit(event | more)
        except Exception:
            log.exception("a decision could not be written to the audit log")
            return False
        return True

    async def _remember(self, situation: _Situation, decision: Decision) -> Decision:
        """Keep an approval for as long as the user said; where that fails it holds this once."""
        if decision.scope in (None, "once"):
            return decision
        operation, now = situation.operation, time.time()
        if (known := self._settled(situation)) is not None and known.allowed:  # by somebody who asked the same
            return decision
        approval = Approval(
            id=secrets.token_hex(8),
            fingerprint=operation.fingerprint(),
            operation=operation.kind,
            subject=visible(operation.subject, limit=400),
            scope=decision.scope,
            agent=situation.place.agent,
            workspace=(situation.place.workspace or "") if decision.scope == "workspace" else "",
            session=situation.session_id if decision.scope == "session" else "",
            created=now,
            expires=now + self._lifetime,
        )
        if decision.scope == "session":
            self._in_session.setdefault(situation.session_id, []).append(approval)
            return decision
        try:
            if self.store:
                await asyncio.to_thread(self.store.remember, approval)
            return decision
        except ApprovalsError:
            log.exception("an approval could not be kept")
            return msgspec.structs.replace(decision, scope="once")

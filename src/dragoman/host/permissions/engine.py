"""Decides on operations of a host for an agent, and on an agent's permission requests.

A decision depends only on the operation that the host is about to perform; the agent's titles, contents and options
are merely shown to the user.  The first of these that applies decides:

    no      the operation cannot be what it says; the session is closed, or the user ended its turn
    no      the preset `deny`
    no      a deny rule
    ask     a protected path, a dangerous variable, an ambiguous address: allowed once at most
            (with `allow-all` only protected paths; never a variable that an allow rule names with its value)
    ask     an ask rule: allowed once at most
    yes     an allow rule
    yes     the preset, as far as it goes
    yes     the user allowed exactly this before, for the session, the workspace or always
    yes     the user allowed exactly this a moment ago, when the agent asked (`tokens`)
    ask     everything else

If asking fails, or recording an approval (`audit`), the answer is no.  `session/request_permission` is the agent's
own question.  The operations that it names (`subjects`) are claims: deny rules forbid them, a preset answers them
as far as it reaches, and otherwise the user does.
"""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence

import msgspec
from msgspec import Struct

from ... import schema as s
from ..diffs import unified
from ..display import visible
from ..operations import Operation
from . import claims, scrutiny
from .approvals import LIFETIME, Approval, ApprovalStore, Scope, default_path
from .asking import CANCELLED, Questions
from .judging import Judge, Situation
from .memory import Memory
from .questions import Asker, Question, about
from .rules.presets import PRESETS, Preset
from .rules.rules import Rules, user_file
from .seen import seen
from .subjects import Subject, subject_of
from .tokens import LIFETIME as TOKEN_LIFETIME
from .tokens import PermissionTokens

__all__ = ["PRESETS", "Decision", "Permissions", "Preset"]

log = logging.getLogger("dragoman")

SHORT = 4000  # characters that are prepared for showing without a thread
MAX_CLOSED = 10_000  # closed sessions that are remembered as closed

Audit = Callable[[Mapping[str, object]], Awaitable[object]]


class Decision(Struct, frozen=True):
    """Whether something may be done, why, and for how long the answer holds; true when it may."""

    allowed: bool
    why: str
    rule: str | None = None  # the place of the rule that decided
    scope: Scope | None = None  # how far the user's answer reaches
    asked: bool = False  # the user answered
    cancelled: bool = False
    tool_call_id: str | None = None  # the call of the question whose yes this spends

    def __bool__(self) -> bool:
        return self.allowed


class Permissions(Judge):
    """Decides for all sessions of one client.

    `asker` shows a question and returns the id of the option the user chose; `store` keeps approvals that last
    longer than a session; `audit` is awaited with every decision before it takes effect; `agent` is the user's name
    for the agent, never the one it gives itself; `protected` are further paths to always ask about.  For `covering`
    seconds, a yes to the agent's question covers the operation that the agent then requests.
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
        at_once: bool = False,
        lifetime: float = LIFETIME,
        covering: float = TOKEN_LIFETIME,
    ) -> None:
        own = [user_file().parent, default_path().parent, *protected, *([store.path] if store else ())]
        super().__init__(preset, rules or Rules(), agent, [os.path.realpath(path) for path in own])
        self._questions = Questions(asker, timeout=timeout, arming=arming, at_once=at_once)
        self._audit = audit
        self._memory = Memory(store, lifetime)
        self._tokens = PermissionTokens(covering)
        self._epochs: dict[str, int] = {}  # counts events that invalidate the answers in progress
        self._closed: dict[str, None] = {}

    @property
    def store(self) -> ApprovalStore | None:
        """Where approvals for longer than a session are stored; None if nowhere."""
        return self._memory.store

    # Sessions

    def open_session(self, session_id: str, rules: Rules | None = None) -> None:
        """Begin a session, or one that was closed, again; `rules` are the rules of its workspace."""
        self._closed.pop(session_id, None)
        self._session_rules[session_id] = rules or Rules()

    def begin_turn(self, session_id: str) -> None:
        """Begin a turn: the user may be asked again about operations denied for the rest of the last turn."""
        self._tokens.forget(session_id)
        self._questions.unsilence(session_id)

    def deny_turn(self, session_id: str) -> None:
        """Deny everything in a session until its next turn."""
        self._questions.silence(session_id)

    def cancel(self, session_id: str) -> None:
        """Answer every open question of a session `cancelled`."""
        self._epochs[session_id] = self._epochs.get(session_id, 0) + 1
        self._tokens.forget(session_id)
        self._questions.withdraw(session_id)

    def close_session(self, session_id: str) -> None:
        """Allow nothing more in a session, and forget the approvals for it."""
        self._closed[session_id] = None
        self._memory.forget_session(session_id)
        self._session_rules.pop(session_id, None)
        self.cancel(session_id)
        self._questions.unsilence(session_id)
        while len(self._closed) > MAX_CLOSED:
            self._closed.pop(oldest := next(iter(self._closed)))
            self._epochs.pop(oldest, None)

    # Earlier approvals

    def approvals(self) -> tuple[Approval, ...]:
        """Everything the user has allowed for longer than once."""
        return self._memory.all()

    def revoke(self, id: str | None = None) -> int:
        """Remove one approval by its id, or all; returns how many there were."""
        return self._memory.revoke(id)

    # Deciding

    async def decide(
        self,
        session_id: str,
        operation: Operation,
        *,
        workspace: str | os.PathLike[str] | None = None,
        directories: Sequence[str | os.PathLike[str]] = (),
        detail: str | s.Diff = "",
    ) -> Decision:
        """Decide whether the host may do this now.  It never raises; if anything fails, the answer is no.

        `workspace` is the session's directory, `directories` its further ones; `detail` is shown, such as the
        change that an operation makes.
        """
        epoch = self._epochs.get(session_id, 0)
        try:
            if why := scrutiny.impossible(operation):
                return await self._noted(session_id, epoch, scrutiny.told_briefly(operation), Decision(False, why))
            told = scrutiny.told(operation)
            try:
                situation = await self.situation(session_id, operation, workspace, directories)
            except OSError as exc:  # somebody changes what is there while it is looked at
                no = Decision(False, f"its path cannot be looked at: {exc.strerror}")
                return await self._noted(session_id, epoch, told, no)
            decision = self._settled(situation)
            if decision is None:
                decision = self._covered(situation, detail)
            if decision is None:
                decision = await self._asked(situation, detail)
            return await self._noted(session_id, epoch, told, decision, situation)
        except Exception:
            log.exception("a permission could not be decided")
            return Decision(False, "it could not be decided")

    async def answer(
        self,
        params: s.RequestPermissionRequest,
        *,
        workspace: str | os.PathLike[str] | None = None,
        directories: Sequence[str | os.PathLike[str]] = (),
    ) -> s.RequestPermissionResponse:
        """Answer an agent's permission request in a session with these directories."""
        epoch = self._epochs.get(params.session_id, 0)
        no = claims.preferred(params, "reject_once", "reject_always")
        try:
            subject = subject_of(params.tool_call, os.path.realpath(workspace or "/"))
            told = claims.told(params, subject)
            if why := claims.malformed(params):
                no = None  # any choice might mean something else to the agent
                option, decision = None, Decision(False, f"the request is misleading: {why}")
            else:
                claimed = await self._claimed(params.session_id, subject, workspace, directories)
                option, decision = await self._claim_decided(params, subject, claimed)
            decision = await self._noted(params.session_id, epoch, told, decision)
        except Exception:
            log.exception("a permission request could not be answered")
            return claims.response(no)
        if decision.cancelled:
            return claims.response(None)
        if decision.allowed and decision.asked and claimed is not None:
            self._tokens.grant(params.session_id, params.tool_call.tool_call_id, subject, self.warnings(*claimed))
        is_answer = option is not None and option.kind.startswith("allow") == decision.allowed
        return claims.response(option if is_answer else no)

    async def answered(
        self,
        params: s.RequestPermissionRequest,
        response: s.RequestPermissionResponse,
        *,
        workspace: str | os.PathLike[str] | None = None,
    ) -> s.RequestPermissionResponse:
        """Record the answer that people gave elsewhere to an agent's unchanged question; returns it for the agent.

        A yes covers the operations that they certainly saw (`seen`), and no warnings, because they saw none.  A yes
        that cannot be recorded is a no.
        """
        epoch = self._epochs.get(params.session_id, 0)
        chosen = getattr(response.outcome, "option_id", None)
        option = next((option for option in params.options if option.option_id == chosen), None)
        allows = option is not None and option.kind.startswith("allow")
        cwd = os.path.realpath(workspace or "/")
        try:
            subject = await asyncio.to_thread(subject_of, params.tool_call, cwd)
            told = claims.told(params, subject)
            decision = Decision(allows, "somebody at the session chose", asked=True, cancelled=option is None)
            decision = await self._noted(params.session_id, epoch, told, decision)
            shown = await asyncio.to_thread(seen, params.tool_call, subject, cwd)
        except Exception:
            log.exception("an answer to a permission request could not be written down")
            decision = Decision(False, "it could not be written down")
        if decision.allowed and not claims.malformed(params):
            self._tokens.grant(params.session_id, params.tool_call.tool_call_id, shown, ())
        if allows and not decision.allowed:
            return claims.response(claims.preferred(params, "reject_once") if not decision.cancelled else None)
        return response

    async def _claim_decided(
        self, params: s.RequestPermissionRequest, subject: Subject, claimed: Sequence[Situation] | None
    ) -> tuple[s.PermissionOption | None, Decision]:
        if (refusal := self._refused(params.session_id)) is not None:
            return None, refusal
        for situation in claimed or ():
            if (banned := self._banned(situation)) is not None:
                return None, banned
        if self._preset_answers(subject, claimed):
            # The scope of the agent's own "always" is unknown.
            kinds: list[s.PermissionOptionKind] = ["allow_once"]
            kinds += ["allow_always"] if self.preset == "allow-all" else []
            option = claims.preferred(params, *kinds)
            if option is not None or self.preset == "allow-all":
                return option, Decision(option is not None, f"the preset {self.preset}, on the agent's word")
        # Comparing long texts takes a while.
        question = await asyncio.to_thread(claims.about_claim, params, subject, self.warnings(*claimed or ()))
        reply = await self._questions.ask(question)
        option = claims.chosen(params, reply.option)
        allows = option is not None and option.kind.startswith("allow")
        decision = Decision(allows, reply.why, asked=reply.option is not None, cancelled=reply.cancelled)
        refusal = self._refused(params.session_id)  # the preset or the session may have changed meanwhile
        return option, refusal if allows and refusal is not None else decision

    async def _claimed(
        self,
        session_id: str,
        subject: Subject,
        workspace: str | os.PathLike[str] | None,
        directories: Sequence[str | os.PathLike[str]],
    ) -> list[Situation] | None:
        """The operations that a question names; None if one of them is impossible."""
        operations = claims.operations(subject)
        if any(scrutiny.impossible(operation) for operation in operations):
            return None
        try:
            return [await self.situation(session_id, each, workspace, directories) for each in operations]
        except OSError:  # somebody changes what is there while it is looked at
            return None

    def _preset_answers(self, subject: Subject, claimed: Sequence[Situation] | None) -> bool:
        """Whether the preset allows everything that the agent asks about."""
        if claimed is None:
            return False
        if self.preset == "allow-all":  # `allow-all` trusts the agent where no rule applies
            return not any((verdict := self.judged(each)) and verdict.effect == "ask" for each in claimed)
        if any(map(self.must_ask, claimed)):
            return False
        return subject.plain and subject.action is not None and all(map(self.preset_allows, claimed))

    def _refused(self, session_id: str) -> Decision | None:
        """The no for everything in a session, if there is one."""
        if session_id in self._closed:
            return Decision(False, "the session is closed")
        if self._questions.is_silenced(session_id):
            return Decision(False, "the user denied everything for the rest of this turn")
        if self.preset == "deny":
            return Decision(False, "the preset deny")
        return None

    def _settled(self, situation: Situation) -> Decision | None:
        """The decision, if no question is needed."""
        operation = situation.operation
        if (refusal := self._refused(situation.session_id)) is not None:
            return refusal
        if (banned := self._banned(situation)) is not None:
            return banned
        if self.must_ask(situation):
            return None
        if verdict := self.judged(situation):
            return Decision(True, "a rule allows it", verdict.rule.where)
        if self.preset_allows(situation):
            return Decision(True, f"the preset {self.preset}")
        if found := self._memory.find(situation.session_id, operation, situation.place):
            return Decision(True, "the user allowed it before", scope=found.scope)
        return None

    def _banned(self, situation: Situation) -> Decision | None:
        """The no of a deny rule."""
        verdict = self.judged(situation)
        if verdict is None or verdict.effect != "deny":
            return None
        reason = f": {visible(verdict.why)}" if verdict.why else ""
        return Decision(False, f"a rule denies it{reason}", verdict.rule.where)

    def _covered(self, situation: Situation, detail: str | s.Diff) -> Decision | None:
        """The user's yes to the agent's question about exactly this operation, which is now spent."""
        change = detail if isinstance(detail, s.Diff) else None
        real, warnings = situation.names[-1], self.warnings(situation)
        token = self._tokens.spend(situation.session_id, real, change, warnings)
        if token is None:
            return None
        return Decision(
            True, "the user allowed it when the agent asked", scope="once", tool_call_id=token.tool_call_id
        )

    async def _asked(self, situation: Situation, detail: str | s.Diff) -> Decision:
        verdict, warnings = self.judged(situation), self.warnings(situation)
        scopes: list[Scope] = ["once"]
        if not situation.doubts and verdict is None:
            scopes.append("session")
            if self.store:
                scopes += ["workspace", "always"] if situation.place.workspace else ["always"]
        question = await self._question(situation, scopes, warnings, detail)
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

    async def _question(
        self,
        situation: Situation,
        scopes: Sequence[Scope],
        warnings: Sequence[str],
        detail: str | s.Diff,
    ) -> Question:
        """The question for the user; a long text is prepared in a thread."""

        def made() -> Question:
            shown = detail if isinstance(detail, str) else unified(detail)
            return about(situation.operation, situation.session_id, scopes=scopes, warnings=warnings, detail=shown)

        is_short = isinstance(detail, str) and len(detail) < SHORT
        return made() if is_short else await asyncio.to_thread(made)

    async def _noted(
        self,
        session_id: str,
        epoch: int,
        told: Mapping[str, object],
        decision: Decision,
        situation: Situation | None = None,
    ) -> Decision:
        """Record a decision before it takes effect; one that cannot be recorded, or is too late, becomes a no."""
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
        """The no that arrived while a yes was being recorded."""
        if self._epochs.get(session_id, 0) != epoch:
            return Decision(False, CANCELLED.why, cancelled=True)
        return self._refused(session_id)

    async def _write(self, session_id: str, told: Mapping[str, object], decision: Decision) -> bool:
        if self._audit is None:
            return True
        outcome = "cancel" if decision.cancelled else "allow" if decision.allowed else "deny"
        event = {"event": "decision", "session": session_id, "agent": self.agent, **told, "decision": outcome}
        more = {"why": decision.why, "rule": decision.rule, "scope": decision.scope, "asked": decision.asked}
        if decision.tool_call_id is not None:
            more["tool_call"] = decision.tool_call_id
        try:
            await self._audit(event | more)
        except Exception:
            log.exception("a decision could not be written to the audit log")
            return False
        return True

    async def _remember(self, situation: Situation, decision: Decision) -> Decision:
        """Store an approval for as long as the user said; if that fails, it holds once."""
        if decision.scope in (None, "once"):
            return decision
        if (known := self._settled(situation)) is not None and known.allowed:  # by an equal question
            return decision
        what = (situation.session_id, situation.operation, situation.place, decision.scope)
        if decision.scope == "session":  # immediately, before the same question can be asked again
            self._memory.keep(*what)
            return decision
        kept = await asyncio.to_thread(self._memory.keep, *what)
        return decision if kept else msgspec.structs.replace(decision, scope="once")

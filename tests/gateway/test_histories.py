"""Whatever happens to a gateway session, in any order: one outcome each, and everybody is told the log."""

import contextlib
import logging
import shutil
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from dragoman.gateway.log.engine import EngineFailure

from .histories import AGENTS, Person, World, answer_all, prompt

KEYS = st.sampled_from(["k1", "k2", "k3", "k4", "k5", "k6", "k7", "k8"])
WORDS = st.sampled_from(["say", "say", "work", "ask", "ask", "deaf", "fail"])
ANYBODY = st.integers(0, 3)
STEPS = st.sampled_from([0, 0, 1, 2, 4, 8, 30])  # of the loop, after something was done
OPENING = st.sampled_from(["session/load", "session/resume", "controller", "observer"])


class SessionHistory(RuleBasedStateMachine):
    """People come, prompt, cancel, close and go; agents die; disks fill; gateways end."""

    @initialize(kind=st.sampled_from(sorted(AGENTS)))
    def begin(self, kind: str) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="history"))
        self.world = World(self.directory, kind)
        self.arrivals = 0
        self.share(0, "editor")
        self.later(8)

    def one(self, number: int) -> Person:
        """Somebody, of those at the session if there are any."""
        people = [person for person in self.world.people if person.is_attached] or self.world.people
        return people[number % len(people)]

    def somebody(self) -> bool:
        return bool(self.world.people)

    def later(self, steps: int) -> None:
        self.world.run(self.world.pass_by(steps))

    # People

    @rule(principal=st.sampled_from(["ann", "ann", "bob"]), returns=st.booleans(), how=OPENING, steps=STEPS)
    def arrive(self, principal: str, returns: bool, how: str, steps: int) -> None:
        self.arrivals += 1
        known = [person for person in self.world.gone if person.principal == principal]
        client = known[-1].client if known and returns else f"{principal}-{self.arrivals}"
        person = self.world.run(self.world.arrive(principal, client))
        self.open_session(person, how)
        self.later(steps)

    def open_session(self, person: Person, how: str) -> None:
        if how.startswith("session/"):
            person.ask(how, sessionId=self.world.session, cwd=str(self.directory), mcpServers=[])
        else:
            person.ask("session/attach", sessionId=self.world.session, role=how)

    @precondition(somebody)
    @rule(who=ANYBODY, word=WORDS, key=KEYS, steps=STEPS)
    def prompt(self, who: int, word: str, key: str, steps: int) -> None:
        self.one(who).ask("session/prompt", **prompt(self.world.session, word, key))
        self.later(steps)

    @precondition(somebody)
    @rule(who=ANYBODY, words=st.lists(WORDS, min_size=2, max_size=4), steps=STEPS)
    def prompt_at_once(self, who: int, words: list[str], steps: int) -> None:
        for word in words:
            self.arrivals += 1
            self.one(who).ask("session/prompt", **prompt(self.world.session, word, f"key {self.arrivals}"))
        self.later(steps)

    @precondition(somebody)
    @rule(who=ANYBODY, option=st.sampled_from(["allow", "allow", "reject", "neither"]), steps=STEPS)
    def answer(self, who: int, option: str, steps: int) -> None:
        answer_all(self.one(who), option)
        self.later(steps)

    @precondition(somebody)
    @rule(who=ANYBODY, is_one=st.booleans(), steps=STEPS)
    def cancel(self, who: int, is_one: bool, steps: int) -> None:
        """Cancel the turn, or one request."""
        person = self.one(who)
        prompts = [id for id in person.pending if person.sent[id][0] == "session/prompt"]
        if not is_one:
            person.send(method="session/cancel", params={"sessionId": self.world.session})
        elif prompts:
            person.send(method="$/cancel_request", params={"requestId": prompts[0]})
        self.later(steps)

    @precondition(somebody)
    @rule(
        who=ANYBODY,
        what=st.sampled_from(["depart", "close", "close and load", "viewer", "editor", "nobody"]),
        steps=STEPS,
    )
    def part(self, who: int, what: str, steps: int) -> None:
        """Leave, close, or change what somebody else may do."""
        person = self.one(who)
        if what == "depart":
            self.world.run(self.world.depart(person))
        elif what.startswith("close"):
            if set(person.openings) & set(person.pending):
                return  # what it opened just now it closes once it is open
            person.ask("session/close", sessionId=self.world.session)
            if what == "close and load":
                self.open_session(person, "session/load")
        else:
            self.share(who, None if what == "nobody" else what)
        self.later(steps)

    def share(self, who: int, role: str | None) -> None:
        self.one(who).ask("_dragoman/session/share", sessionId=self.world.session, principal="bob", role=role)

    # The world

    @rule(how=OPENING, steps=st.sampled_from([3, 20, 100]))
    def time_passes(self, how: str, steps: int) -> None:
        """Who was sent away comes again, and what waits in the agent goes on."""
        for person in [person for person in self.world.people if not person.is_attached]:
            self.open_session(person, how)
        self.world.go_on.set()
        self.later(steps)
        self.world.go_on.clear()

    @rule(state=st.sampled_from(["full", "losing", "slow", "well", "well"]), steps=STEPS)
    def disk(self, state: str, steps: int) -> None:
        storage = self.world.storage
        storage.is_full, storage.is_losing = state == "full", state == "losing"
        (storage.is_open.clear if state == "slow" else storage.is_open.set)()
        self.later(steps)

    @rule(what=st.sampled_from(["agent dies", "agent dies", "upkeep", "restart", "kill"]), steps=STEPS)
    def trouble(self, what: str, steps: int) -> None:
        if what == "agent dies":
            self.world.run(self.world.kill_agents())
        elif what != "upkeep":
            self.world.run(self.world.restart(kill=what == "kill"))
        elif self.world.storage.is_open.is_set():
            with contextlib.suppress(EngineFailure):  # its chore goes on
                self.world.run(self.world.gateway.upkeep())
        self.later(steps)

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        try:
            self.world.run(self.world.finish())
            self.world.check()
        finally:
            self.world.runner.close()
            shutil.rmtree(self.directory)


def live_through(histories: int, **options: Any) -> None:
    how = settings(
        max_examples=histories,
        stateful_step_count=40,
        deadline=None,
        database=None,
        phases=[Phase.generate],  # a history that fails is told as it was: to shrink it takes minutes
        suppress_health_check=list(HealthCheck),
        **options,
    )
    log = logging.getLogger("dragoman")
    log.disabled = True  # pytest would keep every record, and with it the world it is of
    try:
        run_state_machine_as_test(SessionHistory, settings=how)
    finally:
        log.disabled = False


def test_whatever_happens_to_a_session_every_request_has_one_outcome_and_everybody_is_told_the_log() -> None:
    live_through(25, derandomize=True)

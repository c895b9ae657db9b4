"""Judges an operation by rules, presets and the table of protected paths, before anybody is asked."""

import asyncio
import os
import time
from collections.abc import Sequence

from msgspec import Struct

from ..display import visible
from ..operations import FileOperation, FileRead, Operation
from . import scrutiny
from .hard_links import has_other_names, protected_original
from .rules import presets
from .rules.matching import Circumstances, is_in
from .rules.presets import Preset
from .rules.rules import Rules, Verdict
from .scrutiny import Doubt

NO_RULES = Rules()


class Situation(Struct, frozen=True):
    """An operation, its circumstances, and the reasons to ask about it."""

    session_id: str
    names: tuple[Operation, ...]  # with the given path, and last with the real one
    place: Circumstances
    roots: tuple[str, ...]
    doubts: tuple[Doubt, ...]
    verdicts: dict[tuple[Rules, Rules], Verdict | None] = {}  # of the rules in force

    @property
    def operation(self) -> Operation:
        return self.names[0]


class Judge:
    """Knows the rules, the preset and what is protected."""

    def __init__(self, preset: Preset, rules: Rules, agent: str, protected: Sequence[str]) -> None:
        self.preset = preset
        self.rules = rules
        self.agent = agent
        self._protected = tuple(protected)
        self._session_rules: dict[str, Rules] = {}

    @property
    def preset(self) -> Preset:
        """The preset in force; it can be changed at any time."""
        return self._preset

    @preset.setter
    def preset(self, preset: Preset) -> None:
        self._preset = presets.checked(preset)

    async def situation(
        self,
        session_id: str,
        operation: Operation,
        workspace: str | os.PathLike[str] | None,
        directories: Sequence[str | os.PathLike[str]],
    ) -> Situation:
        """Collect what a decision is based on: real paths, directories, agent and time."""
        roots = tuple(os.path.realpath(path) for path in ([workspace] if workspace else []) + [*directories])
        place = Circumstances(roots[0] if workspace else None, self.agent, time.time())
        names = scrutiny.names(operation)
        doubts = [doubt for name in names for doubt in scrutiny.doubts(name, self._protected)]
        is_shared = not doubts and isinstance(operation, FileOperation) and has_other_names(operation.path)
        if is_shared and (twin := await asyncio.to_thread(protected_original, operation.subject, roots)):
            other, protection = twin
            if protection.secret or not isinstance(operation, FileRead):
                doubts.append(Doubt(f"this file is also {visible(other)}; {visible(str(protection))}", "path"))
        return Situation(session_id, names, place, roots, tuple(dict.fromkeys(doubts)))

    def judged(self, situation: Situation) -> Verdict | None:
        """The rules' verdict on an operation under its given and its real path."""
        ours, theirs = self.rules, self._session_rules.get(situation.session_id, NO_RULES)
        if (ours, theirs) not in situation.verdicts:
            told = (situation.names, situation.place, situation.roots, self._protected)
            situation.verdicts[ours, theirs] = scrutiny.judged(ours + theirs, *told)
        return situation.verdicts[ours, theirs]

    def must_ask(self, situation: Situation) -> bool:
        """Whether the user has to be asked even if a rule or preset allows the operation."""
        verdict = self.judged(situation)
        if verdict and verdict.effect == "ask":
            return True
        kept = {"path"} if self.preset == "allow-all" else {"path", "variables", "rest"}
        if verdict and scrutiny.names_variables(verdict.rule.env, situation.operation):
            kept.discard("variables")
        return any(doubt.about in kept for doubt in situation.doubts)

    def preset_allows(self, situation: Situation) -> bool:
        """Whether the preset allows an operation without asking."""
        if not presets.covers(self.preset, situation.operation.kind):
            return False
        if self.preset == "allow-all":
            return True
        real = situation.names[-1]  # the other presets concern files in the roots
        return any(is_in(real.subject, root) for root in situation.roots)

    def warnings(self, *situations: Situation) -> list[str]:
        """Further remarks for the person who decides."""
        warnings: list[str] = []
        for situation in situations:
            warnings += map(str, situation.doubts)
            if (verdict := self.judged(situation)) and verdict.effect == "ask":
                warnings.append(f"{verdict.why or 'a rule says to ask'}: {verdict.rule.where}")
        return list(dict.fromkeys(warnings))

"""The one outcome of each prompt: logged first, then sent, and never changed.

Even if the log cannot be written, a prompt never has two outcomes: the log shows whether an outcome was stored, and
a prompt without one ends with `LOST`, which is also written once the log can be written again.
"""

import asyncio
import functools
import logging
import time

from msgspec import Raw

from ...errors import Error, InternalError
from ..log.engine import Engine, StoredRecord
from ..log.logs import record, records
from ..log.records import ErrorAnswer, PromptAccepted, PromptEnded, is_update, own_frame, read_own
from ..metrics import Metrics
from .history import History
from .viewer import ConnectedClient

log = logging.getLogger("dragoman")

PAUSES = (0.1, 0.5, 2.0, 5.0)  # seconds between attempts to read a log that has just failed


def interruption(why: str) -> ErrorAnswer:
    return ErrorAnswer(-32603, f"the turn was interrupted: {why}", {"kind": "turn_interrupted"})


LOST = interruption("the gateway could not finish it")  # the same whether it is sent or found in the log


class HostedTurn:
    """One prompt, from acceptance to outcome."""

    def __init__(self, key: str, found: dict[str, Raw], client: ConnectedClient) -> None:
        self.key, self.found = key, found
        self.principal, self.client = client.name, client.client_id
        self.outcome: asyncio.Future[tuple[int, PromptEnded]] = asyncio.get_running_loop().create_future()
        self.cancelled = asyncio.Event()
        self.is_ended = False  # it has its outcome, sent or about to be logged
        self.number = 0  # the number of the record that accepted it
        self.began = time.monotonic()
        self.is_answered = False  # the agent has sent an update of it


class Outcomes:
    """The prompts of a session without an outcome, and how each gets one."""

    def __init__(self, session: str, history: History, engine: Engine, metrics: Metrics) -> None:
        self.open: dict[str, HostedTurn] = {}
        self._session, self._history, self._engine, self._metrics = session, history, engine, metrics

    async def read(self, number: int) -> tuple[int, PromptEnded]:
        """The outcome in the log at a number."""
        ended = _own((await record(self._engine, self._session, number)).entry.frame)
        if not isinstance(ended, PromptEnded):  # damage is shown in its place as an update
            raise InternalError("the outcome of this prompt cannot be read: the session's log is damaged there")
        return number, ended

    async def all_told(self) -> None:
        """Wait until every prompt has its outcome."""
        while self.open:
            await asyncio.wait([turn.outcome for turn in self.open.values()])

    def end(self, turn: HostedTurn, ended: PromptEnded) -> None:
        """Log an outcome; callers that wait get it once it is durable."""
        if turn.is_ended or self._history.broken:  # in a broken log, `settle_broken` finds out what is stored
            return
        turn.is_ended = True
        ended.prompt = turn.key
        number = self._history.add("gateway", lambda _: own_frame(ended))
        self._history.then(number, functools.partial(self._kept, turn, number, ended))

    def _kept(self, turn: HostedTurn, number: int, ended: PromptEnded, broken: Error | None) -> None:
        if not broken:
            self._tell(turn, number, ended)

    def _tell(self, turn: HostedTurn, number: int, ended: PromptEnded) -> None:
        turn.is_ended = True
        self.open.pop(turn.key, None)
        self._metrics.turns.add(1, ended.outcome)
        self._metrics.turn_seconds.observe(time.monotonic() - turn.began)
        turn.outcome.set_result((number, ended))

    async def settle_broken(self) -> None:
        """Settle every open prompt after the log has broken, with the outcome that it holds or will hold."""
        turns, durable, why = list(self.open.values()), self._history.durable, self._history.broken
        for turn in turns:
            turn.is_ended = True
        unheard = await self._read_on()
        self._history.found([record.entry for record in unheard])  # so that updates are sent before their outcome
        own = [(record.number, _own(record.entry.frame)) for record in unheard]
        ended = {found.prompt: (number, found) for number, found in own if isinstance(found, PromptEnded)}
        accepted = {found.prompt for _, found in own if isinstance(found, PromptAccepted)}
        for turn in turns:
            if turn.key in ended:
                self._tell(turn, *ended[turn.key])
            elif turn.number <= durable or turn.key in accepted:
                self.lose(turn)
            else:  # never accepted, so that it may be sent again
                self.open.pop(turn.key, None)
                turn.outcome.set_exception(InternalError(f"the prompt was not taken: {why}", {"kind": "storage"}))
                turn.outcome.exception()  # nobody may be waiting

    def lose(self, turn: HostedTurn) -> None:
        """Settle a prompt without an outcome in the log."""
        self._tell(turn, self._history.durable, PromptEnded(turn.key, error=LOST, interrupted=True))

    async def _read_on(self) -> list[StoredRecord]:
        """The unpublished records of the log, if it can be read."""
        for pause in PAUSES:
            try:
                return [found async for found in records(self._engine, self._session, self._history.durable)]
            except Error as exc:
                log.error("the log of %s cannot be read: %s", self._session, exc)
                await asyncio.sleep(pause)
        return []


def _own(frame: bytes) -> object:
    return None if is_update(frame) else read_own(frame)

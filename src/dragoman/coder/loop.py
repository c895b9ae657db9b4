"""The loop: ask the model, do what it calls for, tell it what came of it, until it has nothing more to do.

Whatever happens, and whenever the turn is cancelled, the history is valid afterwards and no tool call stays open.
"""

import asyncio
import contextlib
import functools
import random
from collections.abc import Awaitable, Callable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from .. import schema as s
from ..errors import ConnectionClosed
from ..turn import Turn
from .calls import REPEATS, Calls
from .compacting import Compactor
from .conversation import Conversation
from .exploring import explored
from .gate import Cancelled
from .history import Asked, Call, Part, Reply, Result, Results, Text, repaired, sound, sound_reply
from .model import Busy, CallGrew, CallStarted, Finished, Model, ModelError, Request, Said, Thought, Tokens, TooLong

EDITING = ("edit_file", "write_file", "apply_patch")

Check = Callable[[Turn, Sequence[str]], Awaitable[str]]


class Limits(Struct, frozen=True):
    """What a turn may take."""

    requests: int = 100  # to the model
    tries: int = 5  # of one request that fails for reasons that pass
    delay: float = 1.0  # seconds before the second try; doubled each time
    longest_delay: float = 60.0
    repeats: int = REPEATS  # of the same call, from which on it is not made again
    insists: int = 6  # of the same call, at which the turn ends


class Loop:
    """One turn of the agent.  `check` is given the files that were changed and gives what is wrong with them."""

    def __init__(
        self,
        turn: Turn,
        conversation: Conversation,
        model: Model,
        instructions: Callable[[], str],
        *,
        effort: str = "default",
        limits: Limits = Limits(),  # noqa: B008 - it cannot change
        check: Check | None = None,
    ) -> None:
        self._turn = turn
        self._talk = conversation
        self._model = model
        self._instructions = instructions
        self._effort = effort
        self._limits = limits
        self._check = check
        self._compactor = Compactor(turn, conversation, model)
        self._calls = Calls(
            turn,
            conversation,
            conversation.toolbox,
            model.takes,
            repeats=limits.repeats,
            explore=functools.partial(explored, turn, conversation, model),
        )
        self._partial = ""  # what was said of the answer under way

    async def run(self, parts: Sequence[Part]) -> s.StopReason | None:
        """Answer what the user said; gives the reason it stopped."""
        talk = self._talk
        talk.history.append(Asked(parts))
        await talk.save()  # before the model sees it
        try:
            for _ in range(self._limits.requests):
                await self._compactor.make_room(self._instructions())
                finished = await self._answer()
                if finished.reply.text or finished.reply.calls:  # no provider takes an empty message back
                    talk.history.append(finished.reply)
                await self._calls.end("The model did not make this call after all.", finished.reply.calls)
                await self._account(finished)
                if not finished.reply.calls:
                    return await self._stop(finished)
                await self._do(finished.reply.calls)
                if self._calls.repeats >= self._limits.insists:
                    await self._turn.say("\n\nI keep making the same call, so I stop here.")
                    return "max_turn_requests"
            await self._turn.say(f"\n\nI have asked the model {self._limits.requests} times, so I stop here.")
            return "max_turn_requests"
        except Cancelled:
            return "cancelled"
        finally:
            await self._wind_up()

    async def _stop(self, finished: Finished) -> s.StopReason | None:
        if finished.stop == "refusal":
            if not finished.reply.text:
                await self._turn.say("The model refused to answer.")
            return "refusal"
        if finished.stop == "end" and not finished.reply.text:
            await self._turn.say("The model gave an empty answer.")
        return "max_tokens" if finished.stop == "length" else None

    async def _wind_up(self) -> None:
        """Leave nothing half done: what was said stays said, every call has a result, none stays open on screen."""
        talk = self._talk
        if self._partial:
            talk.history.append(Reply(self._partial))
        if self._calls.results:
            talk.history.append(Results(list(self._calls.results.values())))
        talk.history[:] = repaired(talk.history)
        with contextlib.suppress(ConnectionClosed):
            await self._calls.end("Cancelled.")
            await talk.save()

    # Asking the model

    async def _answer(self) -> Finished:
        """The model's answer; what passes is waited for, a conversation too long is made shorter."""
        delay, shortened = self._limits.delay, 0
        for attempt in range(1, self._limits.tries + 1):
            try:
                return await self._stream()
            except TooLong:
                if shortened == 2:
                    raise
                shortened += 1
                await self._drop_answer()
                await self._compactor.compact(self._instructions())
            except Busy as exc:
                if attempt == self._limits.tries:
                    raise
                await self._drop_answer()
                asked_for = delay * random.uniform(0.8, 1.2) if exc.after is None else exc.after
                wait = min(asked_for, self._limits.longest_delay)
                await self._tell_of_wait(str(exc), wait, attempt)
                await asyncio.sleep(wait)
                delay *= 2
        raise ModelError(f"{self._model.name} does not answer")

    async def _tell_of_wait(self, why: str, wait: float, attempt: int) -> None:
        title = f"Trying again in {wait:.0f} s ({attempt} of {self._limits.tries - 1})"
        if not await self._turn.session.notice(title, why, "warning"):
            await self._turn.think(f"{title}: {why}\n")

    async def _drop_answer(self) -> None:
        """Forget an answer that broke off, and close what it had announced."""
        await self._calls.end("The model's answer broke off.")
        self._partial = ""

    async def _stream(self) -> Finished:
        talk = self._talk
        request = Request(self._instructions(), list(talk.history), talk.toolbox.specs(talk.mode), self._effort)
        events = self._model.stream(request)
        try:
            async for event in events:
                match event:
                    case Said(text=text):
                        self._partial += sound(text)
                        await self._turn.say(sound(text))
                    case Thought(text=text):
                        await self._turn.think(sound(text))
                    case CallStarted(id=id, name=name):
                        await self._calls.begin(id, name)
                    case CallGrew(id=id, arguments=more):
                        await self._calls.grow(id, more)
                    case Finished():
                        self._partial = ""
                        return replace(event, reply=sound_reply(event.reply))
        finally:
            await events.aclose()
        raise Busy(f"{self._model.name} hung up in the middle of its answer")

    async def _account(self, finished: Finished) -> None:
        talk, tokens = self._talk, finished.tokens
        talk.spend(finished)
        talk.used = tokens.input + tokens.output
        cost = None if talk.cost is None else s.Cost(amount=round(talk.cost, 6), currency="USD")
        await talk.session.report_usage(talk.used, self._model.window, cost)
        self._turn.usage = usage(talk.tokens)

    # Doing what it calls for

    async def _do(self, calls: Sequence[Call]) -> None:
        """Run the calls; every one gets a result."""
        results = await self._calls.run(calls)
        edited = any(result.outcome == "success" and result.name in EDITING for result in results)
        findings = await self._findings() if edited else ""
        if findings:
            results[-1] = _with_words(results[-1], f"Checks after your edits found:\n{findings}")
        self._talk.history.append(Results(results))
        self._calls.results = {}
        await self._talk.save()

    async def _findings(self) -> str:
        changed = self._talk.place.checkpoints.changed_in_turn()
        return await self._check(self._turn, changed) if self._check else ""


def _with_words(result: Result, words: str) -> Result:
    return Result(result.id, result.name, [*result.parts, Text(words)], result.outcome)


def usage(tokens: Tokens) -> s.Usage:
    """The tokens of a session as the protocol tells of them."""
    return s.Usage(
        total_tokens=tokens.input + tokens.output,
        input_tokens=tokens.input,
        output_tokens=tokens.output,
        thought_tokens=tokens.thought or None,
        cached_read_tokens=tokens.cached_read or None,
        cached_write_tokens=tokens.cached_write or None,
    )

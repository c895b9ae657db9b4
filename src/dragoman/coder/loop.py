"""The loop: ask the model, run its calls, return the results, until it makes no more calls.

Whatever fails and whenever the turn is cancelled, the history is valid afterwards and no tool call stays open.
"""

import contextlib
from collections.abc import Awaitable, Callable, Sequence

from msgspec.structs import replace

from .. import schema as s
from ..agent.turn import Turn
from ..errors import ConnectionClosed
from .calls import CallRunner
from .context.compacting import Compactor
from .context.history import ModelReply, Part, TextPart, ToolOutcome, ToolUse, sound, sound_reply
from .context.kept_history import CallIds
from .conversation import Conversation
from .exploring import Assistants, OpenModel
from .model.port import (
    CallGrew,
    CallStarted,
    Finished,
    Model,
    ModelError,
    ModelRefused,
    ModelRequest,
    TextDelta,
    Thought,
    TokenUsage,
    TooLong,
    hung_up,
    told,
)
from .model.retrying import Retries, TurnLimits
from .permissions import Cancelled

EDITING = ("edit_file", "write_file", "apply_patch")

TAKEN_OUT = "The new part of the conversation was removed, so that the next prompt works."

Check = Callable[[Turn, Sequence[str]], Awaitable[str]]


class Loop:
    """One turn of the agent.  `check` gets the changed files and returns the findings in them."""

    def __init__(
        self,
        turn: Turn,
        conversation: Conversation,
        model: Model,
        instructions: Callable[[], str],
        *,
        effort: str = "default",
        limits: TurnLimits = TurnLimits(),  # noqa: B008 - it cannot change
        open_model: OpenModel | None = None,
        check: Check | None = None,
    ) -> None:
        self._turn = turn
        self._conversation = conversation
        self._model = model
        self._instructions = instructions
        self._effort = effort
        self._limits = limits
        self._check = check
        self._retries = Retries(turn, limits)
        self._compactor = Compactor(turn, conversation, model, self._retries)
        self._calls = CallRunner(
            turn,
            conversation,
            conversation.toolbox,
            model.takes,
            repeats=limits.repeats,
            helpers=Assistants(turn, conversation, model, self._retries, open_model),
        )
        self._partial = ""  # the part of the current answer that was sent

    async def run(self, parts: Sequence[Part]) -> s.StopReason | None:
        """Answer the user; returns the stop reason."""
        conversation = self._conversation
        conversation.history.ask(parts)
        await conversation.save()  # before the model sees it
        try:
            for _ in range(self._limits.requests):
                await conversation.follow_servers(self._turn)
                await self._compactor.make_room(self._instructions())
                finished = await self._answer()
                conversation.history.prove()
                conversation.history.answer(finished.reply)
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
        except (ModelRefused, TooLong) as exc:
            # Otherwise every later prompt would be refused because of it.
            words = f"{exc}. {TAKEN_OUT}" if conversation.history.remove_new() else str(exc)
            raise ModelError(words) from exc
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
        """Finish an interrupted turn: keep the sent text, give every open call a result."""
        conversation = self._conversation
        conversation.history.answer(ModelReply(self._partial))
        if self._calls.results:
            conversation.history.settle(list(self._calls.results.values()))
        conversation.history.repair()
        with contextlib.suppress(ConnectionClosed):
            await self._calls.end("Cancelled.")
            await conversation.save()

    # Asking the model

    async def _answer(self) -> Finished:
        """The model's answer; a conversation that is too long is shortened, and refused parts are left out."""
        shortened = 0
        while True:
            try:
                return await self._retries.run(self._stream, self._drop_answer)
            except TooLong:
                await self._drop_answer()
                if shortened == 2:
                    raise
                shortened += 1
                await self._compactor.compact(self._instructions())
            except ModelRefused as exc:
                await self._drop_answer()
                if not await self._left_out(str(exc)):
                    raise

    async def _left_out(self, why: str) -> bool:
        """Leave out the part that the provider may have refused, where possible, and tell the user."""
        conversation = self._conversation
        if tool := conversation.toolbox.refused_tool(why, conversation.mode):
            conversation.leave_out(tool)
            words = f"The tool {tool} is left out of this session"
        elif conversation.history.shrink_new():
            words = "The newest attachments or results are left out of the conversation"
        elif conversation.history.flatten():
            words = "The older conversation is told to the model as plain text"
        else:
            return False
        if not await self._turn.session.notice(words, why, "warning"):
            await self._turn.think(f"{words}: {why}\n")
        return True

    async def _drop_answer(self) -> None:
        """Drop an answer that broke off, and close the calls that it had announced."""
        await self._calls.end("The model's answer broke off.")
        self._partial = ""

    async def _stream(self) -> Finished:
        conversation = self._conversation
        request = ModelRequest(
            self._instructions(),
            list(conversation.history),
            conversation.toolbox.specs(conversation.mode),
            self._effort,
            may_search_web=conversation.may_search_web,
        )
        ids = CallIds(conversation.history)
        async with contextlib.aclosing(told(self._model, request, self._limits.silence)) as events:
            async for event in events:
                match event:
                    case TextDelta(text=text):
                        self._partial += sound(text)
                        await self._turn.say(sound(text))
                    case Thought(text=text):
                        await self._turn.think(sound(text))
                    case CallStarted(id=id, name=name):
                        await self._calls.begin(ids.begin(id), name)
                    case CallGrew(id=id, arguments=more):
                        if ours := ids.current(id):
                            await self._calls.grow(ours, more)
                    case Finished():
                        self._partial = ""
                        return replace(event, reply=ids.applied(sound_reply(event.reply)))
        raise hung_up(self._model.name)

    async def _account(self, finished: Finished) -> None:
        conversation, tokens = self._conversation, finished.tokens
        conversation.spend(finished)
        conversation.used = tokens.input + tokens.output
        cost = None if conversation.cost is None else s.Cost(amount=round(conversation.cost, 6), currency="USD")
        await conversation.session.report_usage(conversation.used, self._model.window, cost)
        self._turn.usage = usage(conversation.tokens)

    # Running its calls

    async def _do(self, calls: Sequence[ToolUse]) -> None:
        """Run the calls; every one gets a result."""
        results = await self._calls.run(calls)
        edited = any(result.outcome == "success" and result.name in EDITING for result in results)
        findings = await self._findings() if edited else ""
        if findings:
            results[-1] = _with_words(results[-1], f"Checks after your edits found:\n{findings}")
        self._conversation.history.settle(results)
        self._calls.results = {}
        await self._conversation.save()

    async def _findings(self) -> str:
        changed = self._conversation.place.journal.changed_in_turn()
        return await self._check(self._turn, changed) if self._check else ""


def _with_words(result: ToolOutcome, words: str) -> ToolOutcome:
    return ToolOutcome(result.id, result.name, [*result.parts, TextPart(words)], result.outcome)


def usage(tokens: TokenUsage) -> s.Usage:
    """The tokens of a session as the protocol reports them."""
    return s.Usage(
        total_tokens=tokens.input + tokens.output,
        input_tokens=tokens.input,
        output_tokens=tokens.output,
        thought_tokens=tokens.thought or None,
        cached_read_tokens=tokens.cached_read or None,
        cached_write_tokens=tokens.cached_write or None,
    )

"""A session on the client's side, and the turns in it."""

import asyncio
import functools
import os
from collections.abc import AsyncIterator, Coroutine, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, NoReturn, Unpack

import msgspec
from msgspec import Struct

from .. import codec
from .. import schema as s
from ..dialects.older import SET_BY, SET_MODEL
from ..errors import Error, again, brief
from .inbox import Inbox
from .outgoing import SentTurn

if TYPE_CHECKING:
    from mcp import Client as McpClient

    from .client import Client, SessionOptions


class Session:
    """One conversation with an agent.

    Updates wait in order until they are read: those of a turn by iterating over its `Prompt`, all others
    (a replayed history, what comes between two turns) from `backlog`, or ahead of the next turn's.
    A prompt that you drop before reading all of it loses its updates when the next prompt is sent.
    """

    def __init__(
        self,
        client: "Client",
        id: str,
        inbox: Inbox,
        *,
        modes: s.SessionModeState | None = None,
        config_options: Sequence[s.SessionConfigOption] | None = None,
    ) -> None:
        self.client = client
        self.id = id
        self.modes = modes
        self.config_options = config_options or ()
        self._inbox = inbox

    @property
    def dialect(self) -> str:
        """The agent's dialect; `v1` is not translated."""
        return self.client.dialect

    def prompt(
        self,
        prompt: "str | s.ContentBlock | Sequence[s.ContentBlock]",
        *,
        meta: Mapping[str, Any] | None = None,
    ) -> "Prompt":
        """Start a turn.  Iterate over its updates and, last, the response; or just await the response."""
        self.client.begin_turn(self.id)
        blocks = [s.TextContent(text=prompt)] if isinstance(prompt, str) else _blocks(prompt)
        if meta is not None:
            _check_meta(meta)
        turn = SentTurn(self, s.PromptRequest(session_id=self.id, prompt=blocks, meta=meta))
        return Prompt(turn, self._inbox)

    def cancel(self) -> None:
        """End the running turn: it answers `cancelled` once the agent has stopped.

        Open questions are withdrawn; until the turn is answered, further ones are answered `cancelled` unasked.
        """
        self.client.agent.cancel(s.CancelNotification(session_id=self.id))
        self.client.turns.cancel(self.id)
        self.client.withdraw_questions(self.id)

    def backlog(self) -> "Iterator[s.SessionUpdate]":
        """Give the unread updates that have arrived, without waiting for more."""
        while (item := self._inbox.pop_any()) is not None:
            yield item

    async def updates(self) -> "AsyncIterator[s.SessionUpdate]":
        """Every update from now on, in and between turns, until the session or the connection is closed."""
        self._inbox.readers += 1
        try:
            while True:
                for update in self.backlog():
                    yield update
                if self.client.closed or self._inbox.is_closed:
                    return
                await self._inbox.wait()
        finally:
            self._inbox.readers -= 1

    def mcp(self, server: str, **options: object) -> "AbstractAsyncContextManager[McpClient]":
        """Reach an MCP server that the agent offers: `async with session.mcp("notes") as notes:`.

        Gives a client of the official library, which takes the options.  Raises NotOffered for a server that is
        not among `client.agent_servers`.
        """
        from ..mcp.reaching import reached

        return reached(self, server, options)

    async def set_mode(self, mode_id: str) -> None:
        """Switch the session to another of its `modes`."""
        await self.client.agent.set_mode(s.SetSessionModeRequest(session_id=self.id, mode_id=mode_id))
        if self.modes:
            self.modes = s.SessionModeState(current_mode_id=mode_id, available_modes=self.modes.available_modes)

    async def set_config_option(self, config_id: str, value: str | bool) -> Sequence[s.SessionConfigOption]:
        """Set one option; returns all options, because one may change others."""
        request = s.SetSessionConfigOptionRequest(
            session_id=self.id,
            config_id=config_id,
            value=value,
            type="boolean" if isinstance(value, bool) else s.UNSET,
        )
        chosen = [option for option in self.config_options if getattr(option, "id", "") == config_id]
        if any(getattr(option, "meta", None) == SET_BY for option in chosen):
            await self.client.agent.request(SET_MODEL, {"sessionId": self.id, "modelId": value})
            self.config_options = [
                msgspec.structs.replace(option, current_value=value)
                if isinstance(option, s.SessionConfigSelect) and option.id == config_id
                else option
                for option in self.config_options
            ]
        else:
            self.config_options = (await self.client.agent.set_config_option(request)).config_options
        return self.config_options

    async def set_title(self, title: str) -> str:
        """Set the title; returns it as the agent stored it."""
        request = s.SetSessionTitleRequest(session_id=self.id, title=title)
        return (await self.client.agent.set_title(request)).title

    async def fork(self, cwd: str | os.PathLike[str] = ".", **options: "Unpack[SessionOptions]") -> "Session":
        """Open a new session with the history of this one."""
        return await self.client.fork_session(self.id, cwd, **options)

    async def close(self) -> None:
        """Close the session; the agent may keep it stored."""
        await self.client.close_session(self.id)

    async def delete(self) -> None:
        """Delete the session and its history."""
        await self.client.delete_session(self.id)


class Prompt(Coroutine[Any, Any, s.PromptResponse]):
    """A turn under way: an async iterator over its updates that ends with the response; also a coroutine.

    Cancelling a task that awaits it cancels the turn; cancelling a task that iterates over it does not.
    `aclose` cancels it, so that `contextlib.aclosing` ends a turn whose reader leaves early.
    """

    _told = False  # the response has been handed out

    def __init__(self, turn: SentTurn, inbox: Inbox) -> None:
        self._turn, self._inbox = turn, inbox

    def __del__(self) -> None:
        self._turn.is_abandoned = True

    @property
    def response(self) -> s.PromptResponse:
        """The response, once there is one; raises the error if the agent answered with one."""
        if (reply := self._turn.reply) is None:
            raise Error("the turn is not over")
        if reply.error:
            raise again(reply.error)
        response: s.PromptResponse = reply.result
        return response

    def __aiter__(self) -> "Prompt":
        return self

    if not TYPE_CHECKING:

        def __iter__(self) -> NoReturn:
            raise TypeError("use `async for event in session.prompt(…):`, or await it for the response alone")

        async def __aenter__(self) -> NoReturn:
            raise TypeError("use `async with contextlib.aclosing(session.prompt(…)) as turn:`")

        async def __aexit__(self, *_: object) -> None: ...

    async def __anext__(self) -> "s.SessionUpdate | s.PromptResponse":
        turn = self._turn
        while not turn.ready:
            if self._told:
                raise StopAsyncIteration
            if self._inbox.fetch(turn):
                break
            if turn.reply is None:
                await self._inbox.wait()
            else:
                self._told = True
                self._inbox.finish(turn)
                return self.response
        return turn.ready.pop()  # type: ignore[no-any-return]

    def __await__(self) -> Generator[Any, None, s.PromptResponse]:
        return self._finish().__await__()

    # What makes it a coroutine, for `asyncio.create_task`

    @functools.cached_property
    def _steps(self) -> Generator[Any, None, s.PromptResponse]:
        return self.__await__()

    def send(self, value: Any) -> Any:
        """Resume the awaited turn; part of Python's coroutine protocol."""
        return self._steps.send(value)

    def throw(self, *exception: Any) -> Any:
        """Raise an exception inside the awaited turn and cancel it; part of Python's coroutine protocol."""
        try:
            return self._steps.throw(*exception)
        except StopIteration:
            raise
        except BaseException:
            self._cancel()  # a task that is cancelled before it begins only runs this
            raise

    def close(self) -> None:
        """Stop awaiting and cancel the turn; part of Python's coroutine protocol."""
        self._steps.close()
        self._cancel()

    async def aclose(self) -> None:
        """Cancel the turn unless it is over, and wait for its end."""
        self._cancel()
        while self._turn.reply is None:
            await self._inbox.wait()

    async def _finish(self) -> s.PromptResponse:
        try:
            async for _ in self:
                pass
        except (asyncio.CancelledError, Error):
            self._cancel()
            raise
        return self.response

    def _cancel(self) -> None:
        """End this turn if it is still under way, and no other."""
        turn, session = self._turn, self._turn.session
        if turn.reply is not None or session.client.closed:
            return
        if session.client.turns.is_alone(turn):
            session.cancel()
        else:
            turn.request_cancel()


def _blocks(prompt: "s.ContentBlock | Sequence[s.ContentBlock]") -> Sequence[s.ContentBlock]:
    blocks = [prompt] if isinstance(prompt, Struct | s.Raw) else prompt
    if not isinstance(blocks, list | tuple) or any(not isinstance(block, Struct | s.Raw) for block in blocks):
        told = "prompt() takes a text, a content block or a list of content blocks"
        raise TypeError(f"{told}, and not {brief(repr(prompt))}")
    for block in blocks:
        if wrong := codec.unsendable(block, s.ContentBlock):
            raise TypeError(f"this {type(block).__name__} cannot be sent: {wrong}")
    return blocks


def _check_meta(meta: object) -> None:
    if not isinstance(meta, Mapping):
        raise TypeError(f"meta= is a dictionary, and not {brief(repr(meta))}")

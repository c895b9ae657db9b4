"""A conversation as its client drives it."""

import os
from collections.abc import AsyncIterator, Generator, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack

from msgspec import Struct

from . import schema as s
from .errors import Error
from .inbox import Inbox
from .roles import AgentRole, methods
from .rpc import Reply

if TYPE_CHECKING:
    from .client import Client, SessionOptions

PROMPT = methods(AgentRole)["prompt"]


class Session:
    """One conversation with an agent.

    Updates wait in order until they are read: those of a turn by iterating over `prompt`, all others
    (a replayed history, what comes between two turns) from `backlog`, or ahead of the next turn's.
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
        """What the agent speaks on the wire; `v1` is not translated."""
        return self.client.dialect

    def prompt(
        self,
        prompt: "str | s.ContentBlock | Sequence[s.ContentBlock]",
        *,
        meta: Mapping[str, Any] | None = None,
    ) -> "Prompt":
        """Start a turn.  Iterate over its updates and, last, the response; or just await the response."""
        self.client.begin_turn(self.id)
        return Prompt(self, s.PromptRequest(session_id=self.id, prompt=_blocks(prompt), meta=meta))

    def cancel(self) -> None:
        """End the running turn: it answers `cancelled` when it has wound up.  Open questions are withdrawn."""
        self.client.agent.cancel(s.CancelNotification(session_id=self.id))
        self.client.withdraw_questions(self.id)

    def backlog(self) -> "Iterator[s.SessionUpdate]":
        """What has arrived and nobody has read, without waiting for more."""
        while (item := self._inbox.pop()) is not None:
            if isinstance(item, _End):
                item.prompt.over = True
            else:
                yield item

    async def updates(self) -> "AsyncIterator[s.SessionUpdate]":
        """Every update from now on, in and between turns, until the session or the connection is closed."""
        while True:
            for update in self.backlog():
                yield update
            if self.client.closed or self._inbox.is_closed:
                return
            await self._inbox.wait()

    async def set_mode(self, mode_id: str) -> None:
        await self.client.agent.set_mode(s.SetSessionModeRequest(session_id=self.id, mode_id=mode_id))
        if self.modes:
            self.modes = s.SessionModeState(current_mode_id=mode_id, available_modes=self.modes.available_modes)

    async def set_config_option(self, config_id: str, value: str | bool) -> Sequence[s.SessionConfigOption]:
        """Set one option; gives all of them as they are now, for one may change another."""
        request = s.SetSessionConfigOptionRequest(
            session_id=self.id,
            config_id=config_id,
            value=value,
            type="boolean" if isinstance(value, bool) else s.UNSET,
        )
        self.config_options = (await self.client.agent.set_config_option(request)).config_options
        return self.config_options

    async def set_title(self, title: str) -> str:
        """Name the session; gives the name as the agent stored it."""
        request = s.SetSessionTitleRequest(session_id=self.id, title=title)
        return (await self.client.agent.set_title(request)).title

    async def fork(self, cwd: str | os.PathLike[str] = ".", **options: "Unpack[SessionOptions]") -> "Session":
        """A new session that starts out knowing what this one knows."""
        return await self.client.fork_session(self.id, cwd, **options)

    async def close(self) -> None:
        """End the conversation; the agent may keep it for later."""
        await self.client.close_session(self.id)

    async def delete(self) -> None:
        """Have the agent forget the conversation for good."""
        await self.client.delete_session(self.id)


class _End:
    """In the inbox, behind the last update of a turn."""

    def __init__(self, prompt: "Prompt") -> None:
        self.prompt = prompt


class Prompt:
    """A turn under way: an async iterator over its updates that ends with the response; also awaitable."""

    def __init__(self, session: Session, request: s.PromptRequest) -> None:
        self._session = session
        self._inbox = session._inbox
        self._reply: Reply | None = None
        self._told = False  # the response has been handed out
        self.over = False  # every update has been read
        session.client.connection.submit(PROMPT, request, self._settle)

    def _settle(self, reply: Reply) -> None:
        self._reply = reply
        self._inbox.put_mark(_End(self))

    @property
    def response(self) -> s.PromptResponse:
        """The response, once there is one; raises what the agent answered instead."""
        if self._reply is None:
            raise Error("the turn is not over")
        if self._reply.error:
            raise self._reply.error
        response: s.PromptResponse = self._reply.result
        return response

    def __aiter__(self) -> "Prompt":
        return self

    async def __anext__(self) -> "s.SessionUpdate | s.PromptResponse":
        while not self.over:
            item = self._inbox.pop()
            if item is None and self._reply is not None:
                self.over = True  # the inbox was closed, and the end of the turn with it
            elif item is None:
                await self._inbox.wait()
            elif isinstance(item, _End):
                item.prompt.over = True
            else:
                return item  # type: ignore[no-any-return]
        if self._told:
            raise StopAsyncIteration
        self._told = True
        return self.response

    def __await__(self) -> Generator[Any, None, s.PromptResponse]:
        return self._finish().__await__()

    async def _finish(self) -> s.PromptResponse:
        async for _ in self:
            pass
        return self.response


def _blocks(prompt: "str | s.ContentBlock | Sequence[s.ContentBlock]") -> Sequence[s.ContentBlock]:
    if isinstance(prompt, str):
        return [s.TextContent(text=prompt)]
    return [prompt] if isinstance(prompt, Struct | s.Raw) else prompt

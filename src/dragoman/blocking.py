"""The client for scripts, notebooks and synchronous web handlers: the asynchronous one, run by a thread.

    with blocking.connect("coder") as client:
        print(client.new_session().prompt("What does this project do?").text)

Every call waits for its outcome and raises what the asynchronous client raises.  Any thread may call.  Ctrl-C
ends the wait and cancels the turn that was waited for.
"""

import asyncio
import contextlib
import inspect
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import TypeVar, Unpack

from . import schema as s
from .client import client as asynchronous
from .client.client import SessionOptions, refusal
from .client.connecting import START_TIMEOUT, Target
from .client.connecting import connect as connecting
from .client.session import Prompt as AsyncPrompt
from .client.session import Session as AsyncSession
from .errors import Error, again, brief
from .foundation.owning import Work
from .host.processes import Launch, known_agents

T = TypeVar("T")
Path = str | os.PathLike[str]
# Decides a permission request: the id of the option to choose, or None for the one that allows nothing.
Decide = Callable[[s.RequestPermissionRequest], str | None]


@contextmanager
def connect(
    target: Target,
    client: asynchronous.Client | None = None,
    *,
    permission: Decide | None = None,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    inherit_env: bool = True,
    headers: Mapping[str, str] | None = None,
    dialect: str | None = None,
    start_timeout: float | None = START_TIMEOUT,
) -> "Iterator[BlockingClient]":
    """Reach an agent: by its name, a command, a URL, or an agent class in this process.

    `permission` answers the agent's permission requests: it gets the request and returns the id of the option it
    chooses, or None to refuse.  Without it every request is refused.  It may block, on `input()` say.
    Leaving the block hangs up and ends an agent that was started here.
    """
    if permission and client:
        raise TypeError("give either permission= or a client that answers for itself")
    if permission is not None and (not callable(permission) or inspect.iscoroutinefunction(permission)):
        told = "permission= is a plain function that is given the request"
        raise TypeError(f"{told}, and not {brief(repr(permission))}")
    if launch := _named(target):
        launch.check()
        target = launch.url or launch.argv
        if launch.url:
            headers = {**launch.headers, **(headers or {})}
        else:
            env, inherit_env = {**launch.environment, **(env or {})}, False
    reaching = connecting(
        target,
        client or _Asking(permission),
        cwd=cwd,
        env=env,
        inherit_env=inherit_env,
        headers=headers,
        dialect=dialect,
        start_timeout=start_timeout,
    )
    loop = _LoopThread()
    try:
        connected = loop.call(reaching.__aenter__())
        try:
            yield BlockingClient(loop, connected)
        finally:
            if not loop.is_forked:
                loop.call(reaching.__aexit__(None, None, None))
    finally:
        loop.stop()


def _named(target: Target) -> Launch | None:
    """How to reach an agent that was given by its name."""
    return known_agents().get(target) if isinstance(target, str) else None


class BlockingClient:
    """Drives an agent; every method waits for the agent's answer."""

    def __init__(self, loop: "_LoopThread", client: asynchronous.Client) -> None:
        self._loop = loop
        self.asynchronous = client  # for everything that has no method here, by `run`

    def run(self, coroutine: Work[T]) -> T:
        """Run a coroutine of the asynchronous client, such as `client.run(client.asynchronous.logout())`."""
        return self._loop.call(coroutine)

    def new_session(self, cwd: Path = ".", **options: Unpack[SessionOptions]) -> "BlockingSession":
        """Open a new session in a directory."""
        return BlockingSession(self._loop, self.run(self.asynchronous.new_session(cwd, **options)))

    def load_session(
        self, session_id: str, cwd: Path = ".", **options: Unpack[SessionOptions]
    ) -> "BlockingSession":
        """Open a stored session; its history is in `session.backlog()`."""
        return BlockingSession(self._loop, self.run(self.asynchronous.load_session(session_id, cwd, **options)))

    def resume_session(
        self, session_id: str, cwd: Path = ".", **options: Unpack[SessionOptions]
    ) -> "BlockingSession":
        """Open a stored session without receiving its history."""
        return BlockingSession(self._loop, self.run(self.asynchronous.resume_session(session_id, cwd, **options)))

    def list_sessions(self, cwd: Path | None = None) -> list[s.SessionInfo]:
        """List the agent's stored sessions."""
        return self.run(self.asynchronous.list_sessions(cwd))

    def authenticate(self, method_id: str) -> None:
        """Log in with one of the agent's methods."""
        self.run(self.asynchronous.authenticate(method_id))


class BlockingSession:
    """One conversation with an agent."""

    def __init__(self, loop: "_LoopThread", session: AsyncSession) -> None:
        self._loop = loop
        self.asynchronous = session

    @property
    def id(self) -> str:
        """The id that the agent gave the session."""
        return self.asynchronous.id

    def prompt(self, prompt: "str | s.ContentBlock | Sequence[s.ContentBlock]") -> "BlockingPrompt":
        """Start a turn.  Iterate over its updates, or take its `text` or `response`, which wait for its end."""

        async def begin() -> AsyncPrompt:
            return self.asynchronous.prompt(prompt)

        return BlockingPrompt(self._loop, self.asynchronous, self._loop.call(begin()))

    def cancel(self) -> None:
        """Cancel the running turn, from any thread."""
        self._loop.soon(self.asynchronous.cancel)

    def backlog(self) -> "list[s.SessionUpdate]":
        """Give the unread updates that have arrived, without waiting for more."""

        async def read() -> "list[s.SessionUpdate]":
            return list(self.asynchronous.backlog())

        return self._loop.call(read())

    def set_mode(self, mode_id: str) -> None:
        """Switch the session to another of its modes."""
        self._loop.call(self.asynchronous.set_mode(mode_id))

    def set_config_option(self, config_id: str, value: str | bool) -> Sequence[s.SessionConfigOption]:
        """Set one option; gives all of them as they are now."""
        return self._loop.call(self.asynchronous.set_config_option(config_id, value))

    def close(self) -> None:
        """End the conversation; the agent may keep it for later."""
        self._loop.call(self.asynchronous.close())


class BlockingPrompt:
    """A turn under way: iterate over its updates, or take `text` or `response`, which wait for its end."""

    def __init__(self, loop: "_LoopThread", session: AsyncSession, prompt: AsyncPrompt) -> None:
        self._loop, self._session, self._prompt = loop, session, prompt
        self._said: list[str] = []
        self._response: s.PromptResponse | None = None
        self._error: Exception | None = None

    def __iter__(self) -> "Iterator[s.SessionUpdate]":
        while self._response is None:
            if self._error is not None:
                raise again(self._error)
            event = self._next()
            if isinstance(event, s.PromptResponse):
                self._response = event
                return
            if isinstance(event, s.AgentMessageChunk) and isinstance(event.content, s.TextContent):
                self._said.append(event.content.text)
            yield event

    def _next(self) -> "s.SessionUpdate | s.PromptResponse":
        async def read() -> "s.SessionUpdate | s.PromptResponse":
            return await anext(self._prompt)

        try:
            return self._loop.call(read())
        except KeyboardInterrupt:
            self.cancel()
            raise
        except Exception as exc:
            self._error = exc  # whoever asks again is told the same
            raise

    @property
    def response(self) -> s.PromptResponse:
        """How the turn ended; waits until it has."""
        for _ in self:
            pass
        assert self._response
        return self._response

    @property
    def text(self) -> str:
        """Everything the agent said in this turn; waits until it has ended."""
        for _ in self:
            pass
        return "".join(self._said)

    def cancel(self) -> None:
        """Cancel the turn, from any thread; it still answers, with the stop reason `cancelled`."""
        self._loop.soon(self._session.cancel)


class _Asking(asynchronous.Client):
    """Puts permission requests to a plain function, each in a thread of its own."""

    def __init__(self, decide: Decide | None) -> None:
        super().__init__()
        self._decide = decide

    async def request_permission(self, params: s.RequestPermissionRequest) -> s.RequestPermissionResponse:
        option_id = await _in_thread(self._decide, params) if self._decide else None
        if option_id is None:
            return refusal(params)
        if not isinstance(option_id, str):
            told = "the permission function must return the id of an option, or None"
            raise TypeError(f"{told}, and not {brief(repr(option_id))}")
        if option_id not in (offered := [option.option_id for option in params.options]):
            told = f"the permission function returned {brief(repr(option_id))}, which is none of the options"
            raise ValueError(f"{told}: {', '.join(offered)}")
        return s.RequestPermissionResponse(outcome=s.SelectedPermissionOutcome(option_id=option_id))


async def _in_thread(decide: Decide, params: s.RequestPermissionRequest) -> str | None:
    """Call a function that may block, in a thread that nobody waits for when the program ends."""
    decided: Future[str | None] = Future()
    decided.set_running_or_notify_cancel()  # a withdrawn question does not stop the function, it ignores its answer

    def run() -> None:
        try:
            decided.set_result(decide(params))
        except BaseException as exc:
            decided.set_exception(exc)

    threading.Thread(target=run, name="permission", daemon=True).start()
    return await asyncio.wrap_future(decided)


class _Raised:
    """What a coroutine raised that would have ended the event loop it ran in."""

    def __init__(self, exception: BaseException) -> None:
        self.exception = exception


async def _caught(coroutine: Work[T]) -> T | _Raised:
    try:
        return await coroutine
    except (SystemExit, KeyboardInterrupt) as exc:
        return _Raised(exc)


class _LoopThread:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self._process = os.getpid()
        self._is_ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), name="dragoman", daemon=True)
        self._thread.start()
        self._is_ready.wait()

    async def _run(self) -> None:
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        self._is_ready.set()
        await self._over.wait()

    @property
    def is_forked(self) -> bool:
        """Whether this is a fork of the process that has the thread."""
        return os.getpid() != self._process

    def call(self, coroutine: Work[T]) -> T:
        """Run a coroutine over there and wait for its outcome; an interrupted wait cancels it."""
        if not asyncio.iscoroutine(coroutine):
            raise TypeError(f"run() takes a coroutine of the asynchronous client, and not {brief(repr(coroutine))}")
        if threading.current_thread() is self._thread:
            coroutine.close()
            raise Error("this waits for itself: here, in the client's own thread, await the asynchronous client")
        if not self._thread.is_alive():
            coroutine.close()
            owned = "belongs to the process that this one was forked from" if self.is_forked else "is closed"
            raise Error(f"this client {owned}; open another with blocking.connect")
        future = asyncio.run_coroutine_threadsafe(_caught(coroutine), self._loop)
        try:
            outcome = future.result()
        except KeyboardInterrupt:
            future.cancel()
            raise
        if isinstance(outcome, _Raised):
            raise outcome.exception
        return outcome

    def soon(self, function: Callable[[], object]) -> None:
        """Call a function over there, without waiting; nothing when the client is closed."""
        if self.is_forked:
            return
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(function)

    def stop(self) -> None:
        """End the thread, and with it every task that is left."""
        self.soon(self._over.set)
        self._thread.join()

"""The models an agent can use: the available ones, the default, and those that are open."""

import asyncio
from collections.abc import Sequence

from ..options import REVIEWER
from .choice import Choice, chosen, opened
from .login import stored_keys
from .port import Model, ModelError


class Models:
    """`given` is a model, or the name of one, to use instead of the best available one."""

    def __init__(self, given: Model | str | None) -> None:
        self._given = given
        self._open: dict[str, asyncio.Task[Model]] = {}  # by name, including those being opened
        self.choice: Choice | None = None
        self.known: Sequence[str] = ()

    async def look(self) -> None:
        """Find the available models, unless they are known."""
        if self.choice is not None:
            return
        if self._given is not None and not isinstance(self._given, str):
            self.choice, self.known = Choice(self._given.name, "given"), [self._given.name]
        else:
            self.choice, self.known = await chosen(self._given, stored_keys())

    @property
    def usual(self) -> str:
        """The model a new session uses."""
        return (self.choice.name if self.choice else "") or REVIEWER

    def why(self, name: str) -> str:
        """Why a session uses this model."""
        return self.choice.why if self.choice and name == self.usual else "chosen"

    def prepare(self, name: str) -> None:
        """Begin to open a model, so that the first prompt need not wait for libraries."""
        is_given = self._given is not None and not isinstance(self._given, str)
        if name != REVIEWER and not (is_given and name == self.usual):
            self._opening(name)

    async def get(self, name: str) -> Model | None:
        """A model that is ready for requests; None means the reviewer.  Raises ModelError."""
        if name == REVIEWER:
            return None
        if self._given is not None and not isinstance(self._given, str) and name == self._given.name:
            return self._given
        task = self._opening(name)
        try:
            return await asyncio.shield(task)
        except ModelError:  # the next attempt may succeed
            self._open.pop(name, None)
            raise

    def _opening(self, name: str) -> asyncio.Task[Model]:
        if name not in self._open:
            choice = self.choice if self.choice and self.choice.name == name else Choice(name)
            task = asyncio.create_task(opened(choice, stored_keys()), name=f"open {name}")
            task.add_done_callback(lambda done: done.cancelled() or done.exception())  # passed on to callers
            self._open[name] = task
        return self._open[name]

    async def forget(self) -> None:
        """Find and open the models again after the keys have changed."""
        self.choice = None
        tasks = list(self._open.values())
        self._open.clear()
        for found in await asyncio.gather(*tasks, return_exceptions=True):
            if not isinstance(found, BaseException):
                await found.close()

    async def close(self) -> None:
        """Close open models; loading cannot be stopped, so wait for it."""
        await self.forget()

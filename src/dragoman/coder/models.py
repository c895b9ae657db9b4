"""The models an agent can use: which there are, which is the usual one, and those that are open."""

import asyncio
from collections.abc import Sequence

from .choice import Choice, chosen, loaded, opened
from .login import stored_keys
from .model import Model
from .options import REVIEWER


class Models:
    """`given` is a model or the name of one that is to be used instead of what would be found."""

    def __init__(self, given: Model | str | None) -> None:
        self._given = given
        self._open: dict[str, Model] = {}
        self._warming: asyncio.Task[object] | None = None
        self.choice: Choice | None = None
        self.known: Sequence[str] = ()

    async def look(self) -> None:
        """Find out which models there are, unless that is known."""
        if self.choice is not None:
            return
        if self._given is not None and not isinstance(self._given, str):
            self.choice, self.known = Choice(self._given.name, "given"), [self._given.name]
        else:
            self.choice, self.known = await chosen(self._given, stored_keys())
            if self.choice.name and self._warming is None:  # so that the first prompt need not wait for it
                self._warming = asyncio.create_task(loaded(), name="load the providers")

    @property
    def usual(self) -> str:
        """The model a new session uses."""
        return (self.choice.name if self.choice else "") or REVIEWER

    def why(self, name: str) -> str:
        """Why a session uses this model."""
        return self.choice.why if self.choice and name == self.usual else "chosen"

    async def get(self, name: str) -> Model | None:
        """A model, ready to be asked; None is the reviewer.  Raises ModelError."""
        if name == REVIEWER:
            return None
        if self._given is not None and not isinstance(self._given, str) and name == self._given.name:
            return self._given
        if name not in self._open:
            choice = self.choice if self.choice and self.choice.name == name else Choice(name)
            self._open[name] = await opened(choice, stored_keys())
        return self._open[name]

    async def forget(self) -> None:
        """Keys have changed: look again, and open models anew."""
        self.choice = None
        for model in self._open.values():
            await model.close()
        self._open.clear()

    async def close(self) -> None:
        await self.forget()
        if self._warming:  # a thread that loads modules cannot be stopped
            await asyncio.gather(self._warming, return_exceptions=True)

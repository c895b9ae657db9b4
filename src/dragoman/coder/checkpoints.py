"""What files were before the agent changed them, turn by turn, for `/undo` and `/diff`."""

import difflib
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct

MOST_TURNS = 20
MOST_LETTERS = 16 * 1024 * 1024  # of all kept texts together; the oldest turns go first


class Change(Struct):
    """A file before and after a turn; None is no file."""

    before: str | None
    after: str | None


class Checkpoints:
    """The changes of the last turns that made any; each turn has a number, so that it can be stored by itself."""

    def __init__(self, turns: Mapping[int, dict[str, Change]] | None = None) -> None:
        self.turns = list((turns or {}).values())
        self._number = max(turns, default=-1) + 1 if turns else 0  # of the next turn
        self._open = False

    def begin(self) -> None:
        """A new turn: what it changes is undone together."""
        self._open = False

    def keep(self, path: str, text: str | None) -> None:
        """A file is about to be changed; the first time in a turn counts."""
        if not self._open:
            self.turns.append({})
            self._number += 1
            self._open = True
        self.turns[-1].setdefault(path, Change(text, text))
        self._forget()

    def wrote(self, path: str, text: str) -> None:
        """What a file that is kept has become."""
        self.turns[-1][path].after = text

    def undo(self) -> Mapping[str, Change]:
        """Take the last turn off; gives its changes, for whoever writes them back."""
        self._open = False
        self._number -= bool(self.turns)
        return self.turns.pop() if self.turns else {}

    def changes(self) -> Mapping[str, Change]:
        """Each changed file as it was first and is now."""
        found: dict[str, Change] = {}
        for turn in self.turns:
            for path, change in turn.items():
                found.setdefault(path, Change(change.before, change.after)).after = change.after
        return {path: change for path, change in found.items() if change.before != change.after}

    def changed_in_turn(self) -> list[str]:
        """The files this turn has changed so far."""
        return list(self.turns[-1]) if self._open and self.turns else []

    def _forget(self) -> None:
        while len(self.turns) > MOST_TURNS or (len(self.turns) > 1 and self._letters() > MOST_LETTERS):
            del self.turns[0]

    def _letters(self) -> int:
        return sum(
            len(text)
            for turn in self.turns
            for change in turn.values()
            for text in (change.before, change.after)
            if text
        )

    def encode(self) -> dict[int, Any]:
        """Every turn's changes as JSON values, by its number."""
        first = self._number - len(self.turns)
        return {number: msgspec.to_builtins(turn) for number, turn in enumerate(self.turns, first)}

    @classmethod
    def decode(cls, data: Mapping[int, Any]) -> "Checkpoints":
        return cls({number: msgspec.convert(data[number], dict[str, Change]) for number in sorted(data)})


def patch(path: str, change: Change) -> str:
    """A change as a unified diff."""
    return "".join(
        _ended(difflib.unified_diff(_lines(change.before), _lines(change.after), f"a/{path}", f"b/{path}"))
    )


def _lines(text: str | None) -> list[str]:
    return (text or "").splitlines(keepends=True)


def _ended(lines: Iterator[str]) -> Iterator[str]:
    for line in lines:
        yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"

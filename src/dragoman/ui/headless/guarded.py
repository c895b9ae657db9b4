"""A view that never raises: where it cannot be written to any more, the run is told once and ends in order."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

V = TypeVar("V")


class Failures:
    """Whether what a run is shown on has failed, and who is to be told when it does."""

    def __init__(self) -> None:
        self.first: Exception | None = None
        self.on_first: Callable[[], object] = lambda: None

    def add(self, failure: Exception) -> None:
        if self.first is None:
            self.first = failure
            self.on_first()


def guarded(view: V, failures: Failures) -> V:
    """The same view, whose methods do nothing once one of them could not write."""
    return cast(V, _Guarded(view, failures))


class _Guarded:
    def __init__(self, view: object, failures: Failures) -> None:
        self._view, self._failures = view, failures

    def __getattr__(self, name: str) -> Callable[..., None]:
        method = getattr(self._view, name)

        def guarded_method(*args: Any, **options: Any) -> None:
            if self._failures.first is None:
                try:
                    method(*args, **options)
                except (OSError, ValueError) as exc:  # ValueError: the stream was closed
                    self._failures.add(exc)

        return guarded_method

"""A view that never raises: if its output cannot be written any more, the run is told once and ends in order."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

V = TypeVar("V")


class Failures:
    """Whether the view has failed, and the callback for its failure."""

    def __init__(self) -> None:
        self.first: Exception | None = None
        self.on_first: Callable[[], object] = lambda: None

    def add(self, failure: Exception) -> None:
        if self.first is None:
            self.first = failure
            self.on_first()


def guarded(view: V, failures: Failures) -> V:
    """The view, whose methods do nothing after one of them has failed to write."""
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

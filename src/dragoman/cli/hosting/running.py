"""Runs a server until it is told to stop, and returns the exit code of the command."""

from collections.abc import Callable, Coroutine

from ..complaint import UNREACHABLE, complain


def run_server(work: Callable[[], Coroutine[object, None, object]]) -> int:
    """Run the coroutine that `work` returns; report an error, also of `work` itself, in one line."""
    import asyncio

    from ...errors import Error
    from ...gateway.serving import CannotListen

    try:
        asyncio.run(work())
    except CannotListen as exc:
        return complain(str(exc), UNREACHABLE)
    except Error as exc:
        return complain(str(exc))
    return 0

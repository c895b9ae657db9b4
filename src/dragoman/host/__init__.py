"""What a client lends an agent, safe by default: files, terminals, permissions, an audit log, processes.

`Host` is all of it put together; each part can be used by itself.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .host import Host

__all__ = ["Host"]


def __getattr__(name: str) -> Any:
    if name != "Host":  # the only one that loads all parts
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .host import Host

    globals()[name] = Host
    return Host

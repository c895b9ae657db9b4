"""The parts that a client lends an agent, safe by default: files, terminals, permissions, an audit log, processes.

`Host` puts all parts together; each can also be used by itself.
"""

from typing import TYPE_CHECKING

from ..foundation.names import loading

if TYPE_CHECKING:
    from .host import Host

__all__ = ["Host"]

__getattr__ = loading(__name__, {"host": ("Host",)})

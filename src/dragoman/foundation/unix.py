"""Python's modules that only Unix systems have.

`from ..foundation.unix import fcntl` gives the module, or says in one sentence that this system has none: the parts
of the library that need it cannot be imported there, and all others work.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ..errors import UnsupportedSystem

if TYPE_CHECKING:
    import fcntl as fcntl
    import grp as grp
    import pwd as pwd
    import resource as resource
    import termios as termios
    import tty as tty

MODULES = ("fcntl", "grp", "pty", "pwd", "resource", "termios", "tty")


def missing(name: str) -> UnsupportedSystem:
    """The error for a module that this system does not have."""
    return UnsupportedSystem(f"this needs a Unix system, such as Linux or macOS: here Python has no {name!r}")


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name not in MODULES:
            raise AttributeError(name)
        try:
            return import_module(name)
        except ModuleNotFoundError:
            raise missing(name) from None

"""Dialects of ACP, each translated at the edge of a connection; all other code knows version 1 only.

A *translator* (`translator.py`) serves the connection to a peer that speaks the dialect.  `inward` turns the peer's
messages into version 1, `outward` turns ours into the dialect.  It knows nothing of transports and clocks, holds
the state of one connection, never raises for a message of the peer, and reports every loss: what a dialect cannot
express is counted in `report`, under the name of a row of the dialect's `losses`; what version 1 has no field for
travels in `_meta["dragoman.dialect"][NAME]` and is restored on the way back.

There is a module or a package for each dialect; `detection` tells from the `initialize` messages which one a peer
speaks.
"""

from importlib import import_module

from .detection import detect
from .engine.translator import Peer, Surroundings, Translation, Translator

CANONICAL = "v1"

# The module and the class that translate each dialect; loaded on first use.
_HOMES = {
    "v2": ("v2.translator", "V2"),
    "pharo": ("pharo.translator", "Pharo"),
    "beamcode": ("beamcode", "Beamcode"),
    "cursor": ("cursor", "Cursor"),
    "draft": ("draft.translator", "Draft"),
    "jetbrains": ("jetbrains", "JetBrains"),
    "legacy": ("legacy", "Legacy"),
}
ALIASES = {"1": "v1", "2": "v2", "d0": "pharo", "d1": "beamcode", "d2": "cursor", "d3": "draft", "d4": "jetbrains"}
NAMES = (CANONICAL, *_HOMES)


def proper_name(name: str) -> str:
    """The name of a dialect as written here; raises ValueError for an unknown name."""
    found = ALIASES.get(name.lower(), name.lower())
    if found not in NAMES:
        raise ValueError(f"there is no dialect {name!r}; choose one of {', '.join(NAMES)}")
    return found


def translator(name: str, peer: Peer, surroundings: Surroundings | None = None) -> Translator | None:
    """The translator for a peer, which is an agent or a client; None if no translation is needed."""
    name = proper_name(name)
    if name == CANONICAL:
        return None
    module, cls = _HOMES[name]
    made: Translator = getattr(import_module(f".{module}", __name__), cls)(peer, surroundings)
    return made


__all__ = [
    "ALIASES",
    "CANONICAL",
    "NAMES",
    "Peer",
    "Surroundings",
    "Translation",
    "Translator",
    "detect",
    "proper_name",
    "translator",
]

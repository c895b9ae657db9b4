"""Other ways to speak ACP, each translated at the edge of the connection; inside everything is version 1.

A *translator* (`translator.py`) stands at one edge, the one whose peer speaks the dialect.  `inward` turns what the
peer sent into what version 1 would have said, `outward` the reverse.  It knows nothing of wires and clocks, holds
the state of one connection, never raises for what a peer sent, and never drops a thing in silence: what a dialect
has no word for is counted in `report` under the name of a row of the dialect's `losses`; what version 1 has no
place for rides along in `_meta["dragoman.dialect"][NAME]` and comes out again on the way back.

One module a dialect; `detection` tells from the `initialize` messages which one a peer speaks.
"""

from importlib import import_module

from .detection import detect
from .engine.translator import Peer, Surroundings, Translation, Translator

CANONICAL = "v1"

# Each with the module and the class that translate it, loaded when first met.
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
    """What a dialect is called here; raises ValueError for a name that is none."""
    found = ALIASES.get(name.lower(), name.lower())
    if found not in NAMES:
        raise ValueError(f"there is no dialect {name!r}; choose one of {', '.join(NAMES)}")
    return found


def translator(name: str, peer: Peer, surroundings: Surroundings | None = None) -> Translator | None:
    """What translates for a peer, which is an agent or a client; None for one who needs no translation."""
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

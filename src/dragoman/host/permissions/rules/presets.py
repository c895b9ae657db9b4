"""The operations that a preset allows without asking: none, reading, editing, or all."""

from typing import Literal, get_args

from ...operations import KINDS

Preset = Literal["ask", "allow-reads", "allow-edits", "allow-all", "deny"]
PRESETS: tuple[Preset, ...] = get_args(Preset)

_ALLOWED_BY: dict[Preset, frozenset[str]] = {
    "ask": frozenset(),
    "allow-reads": frozenset({"file_read"}),
    "allow-edits": frozenset({"file_read", "file_write"}),
    "allow-all": frozenset(KINDS),
    "deny": frozenset(),
}


def checked(preset: Preset) -> Preset:
    """The preset with this name; raises ValueError if there is none."""
    if preset not in PRESETS:
        raise ValueError(f"there is no preset {preset!r}; there are: {', '.join(PRESETS)}")
    return preset


def covers(preset: Preset, kind: str) -> bool:
    """Whether a preset allows operations of a kind without asking."""
    return kind in _ALLOWED_BY[preset]

"""What somebody wants done, as the command line says it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct

from ...host.permissions import Preset
from ...host.processes import Launch


class RunOptions(Struct, kw_only=True):
    """What the user wants done."""

    agent: Launch
    prompt: str
    cwd: str
    preset: Preset = "ask"
    mode: str | None = None
    options: Sequence[tuple[str, str]] = ()
    files: Sequence[Path] = ()
    session: str | None = None
    latest: bool = False
    timeout: float | None = None
    sandbox: Literal["commands", "agent"] | None = None  # what runs in one
    visible: Sequence[str] = ()  # what an agent in a sandbox can read, too
    network: Sequence[str] = ()  # the hosts that it can connect to
    dialect: str | None = None  # what the agent speaks, where that cannot be told
    json: bool = False
    interactive: bool = False  # whether somebody sits at stderr's terminal

"""Starts the program."""

from collections.abc import Callable

from ...errors import Error
from ...foundation.suggesting import choices
from ...host.processes import Launch, find_agent
from ..driving.driver import DriveOptions
from .app import DragomanApp, TuiOptions
from .layout import KeptLayout, TuiSettings
from .terminal.traits import traits_of_terminal
from .theme import NAMES, theme_for


def run(
    options: DriveOptions,
    *,
    is_agent_named: bool,
    theme: str | None = None,
    find: Callable[[str], Launch] = find_agent,
) -> None:
    """Show a conversation until the user quits; `latest` resumes the most recent session.

    `find` returns an agent by its name. With `latest` and no named agent, the tabs saved for this directory open.
    """
    settings = TuiSettings.load()
    theme = theme or settings.theme or NAMES[0]
    if theme not in NAMES:
        raise Error(f"there is no theme {theme!r}; {choices(theme, NAMES)}")
    traits = traits_of_terminal()
    theme = theme_for(theme, is_light=traits.is_light)
    tabs = []
    if options.latest and not is_agent_named:
        tabs = _kept(options, find)
    first, *further = tabs or [options]
    shown = TuiOptions(first=first, tabs=further, theme=theme, keys=settings.keys, traits=traits, find=find)
    DragomanApp(shown).run()


def _kept(options: DriveOptions, find: Callable[[str], Launch]) -> list[DriveOptions]:
    """The tabs that were open in this directory when the user quit, if they have a session."""
    found = []
    for tab in KeptLayout.load().tabs:
        if tab.cwd == options.cwd and tab.session:
            kept = DriveOptions(
                agent=find(tab.agent), cwd=tab.cwd, preset=options.preset, session=tab.session, is_again=True
            )
            found.append(kept)
    return found

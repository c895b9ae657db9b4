"""The start of the program."""

from ...errors import Error
from ...foundation.suggesting import choices
from ...host.processes import find_agent
from ..driving.driver import DriveOptions
from .app import DragomanApp, TuiOptions
from .layout import KeptLayout, TuiSettings
from .theme import THEMES


def run(options: DriveOptions, *, is_agent_named: bool, theme: str | None = None) -> None:
    """Show a conversation until the person leaves; with `latest`, go on where they left."""
    settings = TuiSettings.load()
    theme = theme or settings.theme or THEMES[0].name
    names = [each.name for each in THEMES]
    if theme not in names:
        raise Error(f"there is no theme {theme!r}; {choices(theme, names)}")
    tabs = []
    if options.latest and not is_agent_named:
        tabs = _kept(options)
    app = DragomanApp(TuiOptions(first=(tabs or [options])[0], tabs=tabs[1:], theme=theme, keys=settings.keys))
    app.run()


def _kept(options: DriveOptions) -> list[DriveOptions]:
    """The tabs that were open in this directory, without those whose agent is gone."""
    found = []
    for tab in KeptLayout.load().tabs:
        if tab.cwd == options.cwd and tab.session:
            launch = find_agent(tab.agent)
            kept = DriveOptions(
                agent=launch, cwd=tab.cwd, preset=options.preset, session=tab.session, is_again=True
            )
            found.append(kept)
    return found

"""The commands of the palette."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from textual.app import SystemCommand

from .theme import DARK, LIGHT, TERMINAL

if TYPE_CHECKING:
    from .app import DragomanApp


def palette_of(app: "DragomanApp") -> Iterable[SystemCommand]:
    """The commands of the palette, each with its description."""
    yield SystemCommand("Model", "Choose the model", app.action_model)
    yield SystemCommand("Options", "Modes and options of the session", app.action_options)
    yield SystemCommand("Sessions", "Go on with an earlier session", app.action_sessions)
    yield SystemCommand("New conversation", "With any agent, in a new tab", app.action_new_tab)
    yield SystemCommand("Rename session", "Give the session another title", app.action_rename)
    yield SystemCommand("Fork session", "Go on in a copy of the session", app.action_fork)
    yield SystemCommand("Export as Markdown", "Write the conversation to a file", lambda: app.action_export("md"))
    yield SystemCommand("Export as JSON", "Write the conversation to a file", lambda: app.action_export("json"))
    yield SystemCommand("Follow the agent", "Show the file that it is at", app.action_follow)
    yield SystemCommand("Give output", "Of your last command, with the next prompt", app.action_give_output)
    yield SystemCommand("Attach the copied picture", "With the next prompt", app.action_paste_picture)
    yield SystemCommand("Waiting prompts", "Edit or drop what waits", app.action_queue)
    yield SystemCommand("Changes", "Unified, side by side, or as there is room", app.action_diff_layout)
    yield SystemCommand("Copy last message", "To the clipboard", app.action_copy_last)
    for name, words in ((TERMINAL, "of your terminal"), (DARK, "dark"), (LIGHT, "light")):
        yield SystemCommand(f"Colours: {words}", f"The theme {name}", lambda name=name: app.action_theme(name))
    yield SystemCommand("Keys", "Show every key", app.action_help)
    yield SystemCommand("Quit", "Let go of all agents and leave", app.action_quit)

"""The reference of the command line, made from its parser."""

import argparse
import os
import re
from collections.abc import Iterator

from dragoman.cli import parser
from dragoman.cli.hosting.settings import all_settings


def command_line() -> str:
    """A chapter for each command, with all of its options."""
    os.environ["COLUMNS"] = "100"  # usage lines do not depend on the terminal that builds the site
    return "\n".join(chapters(parser()))


def settings() -> str:
    """Every setting of a gateway: its key, its flag, what it means."""
    rows = (
        f"| `{one.key}` | {spelled_flag(one.option)} | {marked(one.words)} | {_in_force(one.reloads)} |"
        for one in all_settings()
    )
    return "\n".join(("| key | flag | meaning | new value takes effect at |", "|---|---|---|---|", *rows)) + "\n"


def spelled_flag(flag: str) -> str:
    return f"`{flag}`" if flag else ""


def _in_force(reloads: bool) -> str:
    return "SIGHUP" if reloads else "restart"


def chapters(command: argparse.ArgumentParser, depth: int = 2) -> Iterator[str]:
    yield f"{'#' * depth} `{command.prog}`\n"
    yield f"{marked(command.description or '')}\n"
    yield f"```text\n{command.format_usage().removeprefix('usage: ').rstrip()}\n```\n"
    below = []
    for group in command._action_groups:
        rows = []
        for action in group._group_actions:
            if isinstance(action, argparse._SubParsersAction):
                below += list(dict.fromkeys(action.choices.values()))
            elif action.help is not argparse.SUPPRESS and action.dest != "help":
                rows.append(f"| {spelled(command, action)} | {explained(command, action)} |")
        if rows:
            title = group.title or "options"
            yield from [
                "" if title in ("options", "positional arguments") else f"**{title[0].upper()}{title[1:]}**\n"
            ]
            yield from [
                f"| {'argument' if title == 'positional arguments' else 'option'} | |",
                "|---|---|",
                *rows,
                "",
            ]
    if command.epilog:
        yield f"```text\n{command.epilog.rstrip()}\n```\n"
    for parser_below in below:
        yield from chapters(parser_below, min(depth + 1, 4))


def spelled(command: argparse.ArgumentParser, action: argparse.Action) -> str:
    value = ""
    if action.nargs != 0:
        formatter = command._get_formatter()
        default = formatter._get_default_metavar_for_optional(action) if action.option_strings else action.dest
        value = formatter._format_args(action, default)
    names = [f"{name} {value}".strip() for name in action.option_strings] or [value]
    return ", ".join(f"`{name}`" for name in names).replace("|", "\\|")


def explained(command: argparse.ArgumentParser, action: argparse.Action) -> str:
    text = command._get_formatter()._expand_help(action) if action.help else ""
    return marked(text).replace("|", "\\|")


def marked(text: str) -> str:
    """Help texts are plain: what Markdown would take for marks is written out."""
    text = re.sub(r"(?<![`\w])(--[a-z][\w-]*)", r"`\1`", text)
    return re.sub(r"([<>*_\[\]])(?![^`]*`(?:[^`]*`[^`]*`)*[^`]*$)", r"\\\1", " ".join(text.split()))

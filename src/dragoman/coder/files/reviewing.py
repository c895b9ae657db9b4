"""The reviewer's help: findings in files that the model has just changed, and a review without a model."""

import asyncio
import contextlib
import logging
from collections.abc import Sequence

from ... import schema as s
from ...agent.turn import Turn
from ..workplace import Workplace
from .project_files import UnreadableFile

MOST = 20  # findings that the model gets
PATIENCE = 30.0  # seconds for all checks together

log = logging.getLogger("dragoman")


def can_review(prompt: Sequence[s.ContentBlock], cwd: str) -> bool:
    """Whether a prompt is a command of the reviewer; it would misunderstand free text."""
    from ...reviewer.prompts import understood

    words = next((block.text for block in prompt if isinstance(block, s.TextContent)), "")
    return words.lstrip().startswith("/") and understood(prompt, cwd).verb != "unknown"


async def findings_in(turn: Turn, place: Workplace, paths: Sequence[str]) -> str:
    """The findings in these files, for the model; checks that run the project's code are left out."""
    from ...reviewer.analysers import analysers_for
    from ...reviewer.findings import Source, under_review
    from ...reviewer.linters.commands import CommandError, Commands
    from ...reviewer.project import unseen

    sources = []
    for path in paths:
        with contextlib.suppress(UnreadableFile):
            if (text := await place.text(turn, path)) is not None:
                sources.append(Source(path=place.shown(path), text=text, size=len(text)))
    commands = Commands()
    found = []
    try:
        async with asyncio.timeout(PATIENCE):
            for analyser in analysers_for(sources, place.session.cwd, commands):
                if analyser.tool is None or not analyser.tool.linter.runs_project_code:
                    with contextlib.suppress(CommandError):
                        found += await analyser.look(unseen)
    except TimeoutError:
        log.debug("the checks after an edit took too long")
    except Exception:  # a failing check must not end the turn
        log.exception("a check after an edit failed")
    finally:
        await commands.close()
    worst = [finding for finding in under_review(found, sources) if finding.severity != "note"]
    lines = [f"{finding.place}: {finding.severity}: {finding.message} ({finding.code})" for finding in worst[:MOST]]
    return "\n".join(lines)

"""Warns the user of something unexpected."""

from ..agent.turn import Turn


async def warned(turn: Turn, title: str, why: str) -> None:
    """Warn the user: by a notice, or in the agent's answer where the client shows no notices."""
    if not await turn.session.notice(title, why, "warning"):
        await turn.say(f"_{title}: {' '.join(why.split())}_\n\n")

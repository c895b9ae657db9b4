"""Telling the user that something is not as they would expect."""

from ..agent.turn import Turn


async def warned(turn: Turn, title: str, why: str) -> None:
    """Tell the user, whatever their client can show: a notice, else words of the agent's answer."""
    if not await turn.session.notice(title, why, "warning"):
        await turn.say(f"_{title}: {' '.join(why.split())}_\n\n")

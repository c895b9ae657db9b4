"""How these tests read what an agent did."""

from dragoman import schema as s


async def open_session(client, cwd="/", **workspace):
    """A session of Testy's whose announcement of commands has been read."""
    session = await client.new_session(cwd, **workspace)
    announced = await anext(session.updates())
    assert isinstance(announced, s.AvailableCommandsUpdate)
    return session


async def play(session, prompt):
    """All events of a turn: its updates, and last its response."""
    return [event async for event in session.prompt(prompt)]


def said(events):
    """The agent's words."""
    return "".join(
        event.content.text
        for event in events
        if isinstance(event, s.AgentMessageChunk) and isinstance(event.content, s.TextContent)
    )


async def tell(session, prompt):
    """What the agent says to a prompt."""
    return said(await play(session, prompt))


async def started(turn, words):
    """Read a turn until these words have been said; gives the events so far."""
    events = []
    async for event in turn:
        events.append(event)
        if words in said(events):
            return events
    raise AssertionError(f"the turn ended without {words!r}: {events}")

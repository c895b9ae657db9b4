"""`python -m dragoman.testing.rogue BEHAVIOUR [NUMBER]`: an agent that misbehaves in one chosen way.

It writes raw lines and uses nothing of this library, so that a client can be tested against the faults of real
peers.  Apart from that one fault it is a plain agent: sessions can be opened, and prompts are echoed.  `--list`
lists the behaviours.
"""

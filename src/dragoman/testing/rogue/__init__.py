"""`python -m dragoman.testing.rogue BEHAVIOUR [NUMBER]`: an agent that misbehaves on the wire in one chosen way.

It speaks raw lines and knows nothing of this library, so that a client can be tried against what real peers do.
But for its one vice it is a plain agent: sessions can be opened, and prompts are echoed.  `--list` shows the vices.
"""

"""A terminal's screen without a terminal: what programs draw, as rows of cells with their styles."""

"""A terminal's screen without a terminal: the output of programs as rows of cells with their styles."""

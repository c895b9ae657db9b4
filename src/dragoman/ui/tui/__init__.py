"""`dragoman` at a terminal: conversations with agents, drawn with Textual from the view model.

Everything somebody else said is shown through `words`: as plain text, never as markup of the toolkit and never as a
sequence for the terminal.
"""

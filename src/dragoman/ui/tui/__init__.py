"""`dragoman` at a terminal: conversations with agents, drawn with Textual from the view model.

`words` shows all text from agents and other users: as plain text, never as markup of the toolkit and never as
a control sequence for the terminal.
"""

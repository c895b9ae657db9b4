"""Markdown on a terminal, while it streams: headings, emphasis, code, lists, quotes and tables, wrapped at words.

Pure: text in, text out.  The output does not depend on where the chunks were cut, it contains every word of the
text, and only `Style` adds control sequences.  Emphasis is bold, italic or underlined and code is cyan, so no
message of an agent looks like a question or a decision of ours.
"""

from .stream import LiveMarkdown, MarkdownStream

__all__ = ["LiveMarkdown", "MarkdownStream"]

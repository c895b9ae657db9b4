"""Markdown on a terminal, while it streams: headings, emphasis, code, lists, quotes and tables, wrapped at words.

Pure: text in, text out.  What is shown does not depend on where the chunks were cut, it has every word of the text,
and only `Style` adds control sequences.  Emphasis is bold, italic or underlined and code is cyan, so nothing that
an agent says looks like a question or a verdict of ours.
"""

from .stream import LiveMarkdown, MarkdownStream

__all__ = ["LiveMarkdown", "MarkdownStream"]

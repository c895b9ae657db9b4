"""Text of others in the Markdown that users are shown."""

import re


def fenced(text: str) -> str:
    """A text in a fence that nothing in it closes."""
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}\n{text}\n{fence}"

"""Foreign text in the Markdown that users see."""

import re


def fenced(text: str) -> str:
    """A text in a code fence longer than any in the text."""
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}\n{text}\n{fence}"

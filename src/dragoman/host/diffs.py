"""A change of a text as a unified diff for a person, in bounded time."""

from ..foundation.comparing import hunks, in_patch, lines_of
from ..schema import Diff

CONTEXT = 3  # lines around a change


def unified(diff: Diff) -> str:
    """The lines that go (-), come (+) and stay, with the numbers of the first ones."""
    lines = list[str]()
    for hunk in hunks(lines_of(diff.old_text or ""), lines_of(diff.new_text), CONTEXT):
        head = f"@@ -{hunk.old_start},{hunk.old_count} +{hunk.new_start},{hunk.new_count} @@"
        lines += [head, *map(in_patch, hunk.lines)]
    return "\n".join(lines)

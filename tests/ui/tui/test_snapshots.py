"""What the most important views look like, at three sizes and in both themes.

`make snapshots` writes the snapshots anew; `git diff` then shows what has become of them.
"""

import difflib
import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from driven import Driven
from recorded import described, draw, painted, recorded, roles_of
from views import VIEWS, View

from dragoman.ui.tui.theme import DARK, LIGHT

KEPT = Path(__file__).parent / "snapshots"
SIZES = ((80, 24), (120, 40), (200, 60))
REWRITE = "REWRITE_SNAPSHOTS"


async def looked_at(view: View, cwd: Path) -> str:
    """Everything there is to see of a view, and in the light theme what looks otherwise there."""
    parts, dark = list[str](), list[dict[int, str]]()
    async with recorded(cwd, size=(100, 30), theme=DARK) as driven:
        await draw(driven, view)
        for size in SIZES:
            await resized(driven, size)
            texts, looks = described(driven, roles_of("dark"))
            dark.append(looks)
            parts += [f"━━ {_title(size)}", *texts, f"━━ {_title(size)}, colours", *_numbered(looks)]
        driven.app.theme = LIGHT
        for size, before in zip(SIZES, dark, strict=True):
            await resized(driven, size)
            looks = described(driven, roles_of("light"))[1]
            rows = sorted(row for row in {*before, *looks} if looks.get(row) != before.get(row))
            parts += [
                f"━━ {_title(size)}, in the light theme",
                *_numbered({row: looks.get(row, "") for row in rows}),
            ]
    return "\n".join(parts) + "\n"


async def resized(driven: Driven, size: tuple[int, int]) -> None:
    await driven.pilot.resize_terminal(*size)
    await driven.until(lambda: driven.app.size == size)
    await painted(driven)


def _title(size: Sequence[int]) -> str:
    return f"{size[0]} × {size[1]}"  # noqa: RUF001


def _numbered(looks: dict[int, str]) -> list[str]:
    return [f"{row}: {told}" for row, told in looks.items()]


@pytest.mark.parametrize("view", VIEWS, ids=[view.name for view in VIEWS])
async def test_a_view_looks_as_it_did(view: View, shop: Path) -> None:
    found = await looked_at(view, shop)
    place = KEPT / f"{view.name}.txt"
    if os.environ.get(REWRITE):
        place.write_text(found)
    changed = list(
        difflib.unified_diff(place.read_text().split("\n"), found.split("\n"), "kept", "now", lineterm="")
    )
    assert not changed, "\n".join(["", *changed, "", "if it is meant to look so: make snapshots"])


def test_every_snapshot_is_of_a_view() -> None:
    assert sorted(path.stem for path in KEPT.iterdir()) == sorted(view.name for view in VIEWS)

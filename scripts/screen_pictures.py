"""Draw pictures of the terminal screen from recorded conversations: docs/images/tui-NAME.svg, and .png beside it.

The views are those of the snapshot tests (`tests/ui/tui/views.py`).  `rsvg-convert` makes the PNGs; without it the
SVGs alone are drawn.  With `--all DIR` every view is drawn into a directory, in both themes, to be looked at.
"""

import asyncio
import html
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "ui" / "tui")]

from driven import Driven  # noqa: E402
from recorded import draw, recorded  # noqa: E402
from rich.segment import Segment  # noqa: E402
from rich.style import Style  # noqa: E402
from views import VIEWS, View  # noqa: E402

from dragoman.ui.tui.theme import DARK, LIGHT, colours  # noqa: E402

IMAGES = ROOT / "docs" / "images"
WIDE, HIGH = 8.43, 19  # pixels of a cell
HEAD, EDGE = 38, 14
FONT = "DejaVu Sans Mono,ui-monospace,Menlo,Consolas,monospace"
PICTURES = (  # of which view, its theme, its size
    ("working", DARK, (120, 36)),
    ("asks-to-run", DARK, (120, 30)),
    ("changes", LIGHT, (150, 26)),
    ("asks-in-a-form", LIGHT, (110, 34)),
    ("sessions", DARK, (120, 30)),
    ("tabs", DARK, (80, 24)),
)


def drawn(driven: Driven, theme: str) -> str:
    """The screen as an SVG picture of a window."""
    by_role = colours("light" if theme == LIGHT else "dark")
    columns, rows = driven.app.size
    width, height = columns * WIDE + 2 * EDGE, rows * HIGH + HEAD + EDGE
    parts = []
    for number, strip in enumerate(driven.app.screen._compositor.render_strips()):
        y, column = HEAD + number * HIGH, 0
        for segment in strip:
            parts += _cell(segment, EDGE + column * WIDE, y, by_role)
            column += segment.cell_length
    dots = "".join(
        f'<circle cx="{x}" cy="19" r="6" fill="{fill}"/>'
        for x, fill in ((22, "#ff5f57"), (42, "#febc2e"), (62, "#28c840"))
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height}" font-family="{FONT}" '
        f'font-size="14"><rect width="100%" height="100%" rx="9" fill="{by_role["ground"]}" '
        f'stroke="{by_role["line"]}"/>{dots}\n{chr(10).join(parts)}</svg>\n'
    )


def _cell(segment: Segment, x: float, y: float, by_role: dict[str, str]) -> Iterator[str]:
    style = segment.style or Style()
    colour, ground = _hex(style.color) or by_role["words"], _hex(style.bgcolor) or by_role["ground"]
    if style.reverse:
        colour, ground = ground, colour
    length = segment.cell_length * WIDE
    if ground != by_role["ground"]:
        yield f'<rect x="{x:.1f}" y="{y}" width="{length + 0.3:.1f}" height="{HIGH}" fill="{ground}"/>'
    words = segment.text.rstrip()
    if not words:
        return
    blanks = len(words) - len(words.lstrip())
    x += blanks * WIDE
    length = (segment.cell_length - blanks - (len(segment.text) - len(words))) * WIDE
    looks = 'font-weight="bold" ' if style.bold else ""
    looks += 'font-style="italic" ' if style.italic else ""
    looks += 'text-decoration="underline" ' if style.underline else ""
    yield (
        f'<text x="{x:.1f}" y="{y + 14.5}" textLength="{length:.1f}" lengthAdjust="spacingAndGlyphs" '
        f'xml:space="preserve" fill="{colour}" {looks}>{html.escape(words.lstrip(), quote=False)}</text>'
    )


def _hex(colour: object) -> str | None:
    triplet = getattr(colour, "triplet", None)
    return triplet.hex if triplet is not None else None


async def picture(view: View, theme: str, size: tuple[int, int], target: Path) -> None:
    """Draw a view into a file, and make a PNG of it."""
    with tempfile.TemporaryDirectory() as place:
        shop = Path(place) / "shop"
        (shop / "src").mkdir(parents=True)
        (shop / "prices.py").write_text('TAX = 0.19\n\nRATES = {\n    "standard": 0.19, "reduced": 0.05}\n')
        (shop / "src" / "pricing.py").write_text("")
        async with recorded(shop, size=size, theme=theme) as driven:
            await draw(driven, view)
            target.write_text(drawn(driven, theme), encoding="utf-8")
    if program := shutil.which("rsvg-convert"):
        await asyncio.to_thread(converted, program, target)


def converted(program: str, target: Path) -> None:
    """Have a PNG beside an SVG."""
    subprocess.run([program, "--output", str(target.with_suffix(".png")), str(target)], check=True)


async def pictures(wanted: Iterable[tuple[str, str, tuple[int, int]]], place: Path) -> None:
    named = {view.name: view for view in VIEWS}
    for name, theme, size in wanted:
        target = place / f"tui-{name}.svg"
        await picture(named[name], theme, size, target)
        print(f"drew {target}")


async def all_of_them(place: Path) -> None:
    """Every view in both themes and two sizes."""
    place.mkdir(parents=True, exist_ok=True)
    for view in VIEWS:
        for theme, size in ((DARK, (120, 40)), (LIGHT, (80, 24))):
            await picture(view, theme, size, place / f"{view.name}-{theme}-{size[0]}.svg")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--all"]:
        asyncio.run(all_of_them(Path(sys.argv[2])))
    else:
        asyncio.run(pictures(PICTURES, IMAGES))

"""The style of cells as words, and how control sequences change it.

A style is a list of words in a fixed order, such as `bold red on_#102030`, so that equal styles are equal texts.
"""

import functools

COLOURS = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
_SET = {1: "bold", 2: "dim", 3: "italic", 4: "underline", 7: "reverse", 9: "strike"}
_UNSET = {22: ("bold", "dim"), 23: ("italic",), 24: ("underline",), 27: ("reverse",), 29: ("strike",)}
_ORDER = tuple(_SET.values())
_LEVELS = (0, 95, 135, 175, 215, 255)


@functools.lru_cache(4096)
def restyled(style: str, parameters: str) -> str:
    """A style after a sequence that changes it; unknown parameters change nothing."""
    words = style.split()
    looks = {word for word in words if word in _ORDER}
    foreground = next((word for word in words if word not in _ORDER and not word.startswith("on_")), "")
    background = next((word for word in words if word.startswith("on_")), "")
    codes = [
        int(word) if word.isdecimal() and len(word) < 4 else 0 for word in parameters.replace(":", ";").split(";")
    ]
    while codes:
        code = codes.pop(0)
        if code == 0:
            looks, foreground, background = set(), "", ""
        elif code in _SET:
            looks.add(_SET[code])
        elif code in _UNSET:
            looks.difference_update(_UNSET[code])
        elif code in (38, 48):
            colour = _further(codes)
            foreground, background = (colour, background) if code == 38 else (foreground, colour and f"on_{colour}")
        elif code in (39, 49):
            foreground, background = ("", background) if code == 39 else (foreground, "")
        elif 30 <= code <= 37 or 90 <= code <= 97:
            foreground = _named(code % 10, code >= 90)
        elif 40 <= code <= 47 or 100 <= code <= 107:
            background = f"on_{_named(code % 10, code >= 100)}"
    return " ".join([*(word for word in _ORDER if word in looks), *filter(None, (foreground, background))])


def _named(number: int, is_bright: bool) -> str:
    return f"bright_{COLOURS[number]}" if is_bright else COLOURS[number]


def _further(codes: list[int]) -> str:
    """Take the numbers that follow, and give the colour they mean: one of 256, or any RGB colour."""
    match codes:
        case [5, number, *_]:
            del codes[:2]
            return _of_256(min(number, 255))
        case [2, red, green, blue, *_]:
            del codes[:4]
            return f"#{min(red, 255):02x}{min(green, 255):02x}{min(blue, 255):02x}"
    codes.clear()
    return ""


def _of_256(number: int) -> str:
    if number < 16:
        return _named(number % 8, number >= 8)
    if number >= 232:
        grey = 8 + 10 * (number - 232)
        return f"#{grey:02x}{grey:02x}{grey:02x}"
    red, green, blue = (number - 16) // 36, (number - 16) // 6 % 6, (number - 16) % 6
    return f"#{_LEVELS[red]:02x}{_LEVELS[green]:02x}{_LEVELS[blue]:02x}"

"""Colours: those of the user's terminal, or our own palette, dark or light.

Each role has a variable. Colour alone never carries a meaning: a sign or a word accompanies it.
"""

from textual.theme import BUILTIN_THEMES, Theme

# The colours of each role: dark palette, light palette, user's terminal.
_COLOURS = {
    "ground": ("#14161b", "#fbfaf7", "ansi_default"),
    "raised": ("#1c2027", "#f1efe9", "ansi_default"),
    "line": ("#333a46", "#d5d1c7", "ansi_bright_black"),
    "words": ("#e4e7ec", "#1d2026", "ansi_default"),
    "quiet": ("#9aa4b2", "#5b6370", "ansi_bright_black"),
    "moving": ("#7cc4ff", "#0b5fa5", "ansi_cyan"),
    "good": ("#7ddf9a", "#1b6e37", "ansi_green"),
    "warn": ("#f3c969", "#7d5600", "ansi_yellow"),
    "bad": ("#ff8f8f", "#b3261e", "ansi_red"),
    "thought": ("#c3a6ff", "#6436b5", "ansi_magenta"),
    "added": ("#17301f", "#dff0e2", "ansi_default"),
    "removed": ("#3a1d20", "#f8dfdc", "ansi_default"),
}
_KINDS = ("dark", "light", "terminal")

DARK, LIGHT, TERMINAL, TERMINAL_LIGHT = "dragoman-dark", "dragoman-light", "terminal", "terminal-light"
DRAGOMAN = "dragoman"  # the dark or light palette, to match the terminal's background


def _theme(name: str, kind: str, *, dark: bool) -> Theme:
    by_role = colours(kind)
    ansi = BUILTIN_THEMES["ansi-dark" if dark else "ansi-light"].variables if kind == "terminal" else {}
    return Theme(
        name=name,
        primary=by_role["moving"],
        secondary=by_role["thought"],
        warning=by_role["warn"],
        error=by_role["bad"],
        success=by_role["good"],
        accent=by_role["moving"],
        foreground=by_role["words"],
        background=by_role["ground"],
        surface=by_role["ground"],
        panel=by_role["raised"],
        boost=by_role["raised"],
        dark=dark,
        ansi=kind == "terminal",
        variables={
            **ansi,
            **by_role,
            "border": by_role["line"],
            "border-blurred": by_role["line"],
            "scrollbar": by_role["line"],
            "scrollbar-hover": by_role["quiet"],
            "scrollbar-active": by_role["moving"],
            "scrollbar-background": by_role["ground"],
            "scrollbar-background-hover": by_role["ground"],
            "scrollbar-background-active": by_role["ground"],
            "scrollbar-corner-color": by_role["ground"],
            "footer-key-foreground": by_role["moving"],
        },
    )


def colours(kind: str = "dark") -> dict[str, str]:
    """The colour of every role."""
    return {role: each[_KINDS.index(kind)] for role, each in _COLOURS.items()}


def theme_for(wanted: str, *, is_light: bool) -> str:
    """The theme for a chosen name, on a terminal with a light or dark background."""
    if wanted == DRAGOMAN:
        return LIGHT if is_light else DARK
    return TERMINAL_LIGHT if wanted == TERMINAL and is_light else wanted


THEMES = (
    _theme(TERMINAL, "terminal", dark=True),
    _theme(TERMINAL_LIGHT, "terminal", dark=False),
    _theme(DARK, "dark", dark=True),
    _theme(LIGHT, "light", dark=False),
)
NAMES = (TERMINAL, DRAGOMAN, DARK, LIGHT)  # the themes that a user can choose

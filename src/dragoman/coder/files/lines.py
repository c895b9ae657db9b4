"""Lines of a text as Git, grep and editors count them: form feeds and rare separators do not end a line."""


def lines_of(text: str) -> list[str]:
    """The lines of a text without their ends, LF or CR LF."""
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    return lines if lines[-1] else lines[:-1]


def lines_with_ends(text: str) -> list[str]:
    """The lines of a text with their ends; only the last may have none."""
    *lines, last = text.split("\n")
    return [*(f"{line}\n" for line in lines), *([last] if last else [])]

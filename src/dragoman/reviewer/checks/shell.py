"""Shell scripts without ShellCheck: mistakes that are visible from the words alone."""

import os
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ..findings import Finding, Severity, Source
from .leftovers import LONGEST, TextLines

_SHEBANG = re.compile(r"#!\s*(?:/usr/bin/env\s+(?:-S\s+)?|\S*/)(sh|bash|dash|ksh|ash)\b([^\n]*)")
_NAME = r"\$(?:[A-Za-z_]\w*|\{[A-Za-z_]\w*\})"
_HEREDOC = re.compile(r"(?<!<)<<(-?)\s*(['\"]?)([A-Za-z_]\w*)\2")
_FULL = re.compile(r"[\w./:+-]+|\"[\w./:+-]+\"|'[\w./:+-]+'|\$[?#$]")
_TESTED = r"\$\{?([A-Za-z_]\w*)\}?"
_ERREXIT = re.compile(r"^[ \t]*+set[ \t]+(?:-[a-df-z]*e|-o\s+errexit)", re.MULTILINE)


class ShellRule(NamedTuple):
    code: str
    severity: Severity
    pattern: re.Pattern[str]
    message: str
    advice: str
    sh_only: bool = False  # it is not a mistake in bash
    known_elsewhere: bool = True  # ShellCheck reports it, and better


RULES = (
    ShellRule(
        "shell-unquoted-rm",
        "error",
        re.compile(rf"\brm\s(?=(?:[^;|&]*\s)?-\w*[rR]\w*\s)[^;|&]*{_NAME}"),
        "rm -r is given a variable without quotes: empty or with a blank in it, the wrong files go",
        'write "${name:?}" with the quotes',
    ),
    ShellRule(
        "shell-unquoted-test",
        "warning",
        re.compile(rf"(?<!\[)\[\s+(?:!\s+)?{_TESTED}\s+(?:==?|!=|-nt|-ot|-ef)\s"),
        "a variable without quotes in [ ]: when it is empty, the test is a syntax error",
        'write "$name" with the quotes',
    ),
    ShellRule(
        "shell-unquoted-test",
        "warning",
        re.compile(rf"(?<!\[)\[\s+(?:!\s+)?-n\s+{_TESTED}\s"),
        "a variable without quotes behind -n: when it is empty, the test is true",
        'write "$name" with the quotes',
    ),
    ShellRule(
        "shell-spaced-assignment",
        "error",
        re.compile(r"^\s*[A-Za-z_]\w* = \S"),
        "blanks around =: this runs a command instead of setting a variable",
        "write name=value without blanks",
    ),
    ShellRule(
        "shell-ls-loop",
        "warning",
        re.compile(r"\bfor\s+\w+\s+in\s+(?:\$\(|`)\s*ls\b"),
        "a loop over the output of ls: names with blanks fall apart",
        "loop over a pattern instead: for file in ./*.txt",
    ),
    ShellRule(
        "shell-unquoted-arguments",
        "warning",
        re.compile(r"(?<![\w=])(?<!\bcase )\$@"),
        "$@ without quotes: arguments with blanks fall apart",
        'write "$@"',
    ),
    ShellRule(
        "shell-equals-in-sh",
        "warning",
        re.compile(r"(?<!\[)\[\s[^\]\n]*\s(==)\s"),
        "== is not known to [ in every sh",
        "write =",
        sh_only=True,
        known_elsewhere=False,  # ShellCheck reports it, but does not repair it
    ),
    ShellRule(
        "shell-bash-in-sh",
        "error",
        re.compile(r"(?:^|[;&|]|\b(?:if|while|until|then|do)\b)\s*(?:\[\[\s|function\s+\w+|source\s)"),
        "the first line says sh, but this is bash",
        "begin the script with #!/usr/bin/env bash, or write it for sh",
        sh_only=True,
    ),
    ShellRule(
        "shell-download-and-run",
        "warning",
        re.compile(r"\b(?:curl|wget)\b[^;&\n]*\|\s*(?:sudo\s+)?(?:ba|da|z|k)?sh\b"),
        "a download is run unseen, also when it breaks off half-way",
        "download to a file, check its sum, then run it",
        known_elsewhere=False,
    ),
    ShellRule(
        "shell-open-to-all",
        "warning",
        re.compile(r"\bchmod\s+(?:-R\s+)?0?777\b"),
        "everybody on the machine may change these files",
        "give the owner what is needed: chmod u+rwX",
        known_elsewhere=False,
    ),
)
_CD = ShellRule(
    "shell-unchecked-cd",
    "warning",
    re.compile(r"^\s*cd\s+(?!/$|~/?$)[^;&|]+$"),
    "when cd fails, the rest runs in the wrong directory",
    "write cd … || exit 1, or begin with set -e",
)


def is_shell(source: Source) -> bool:
    suffix = os.path.splitext(source.path)[1]
    return suffix in (".sh", ".bash") or (not suffix and bool(_SHEBANG.match(source.text)))


def interpreter(source: Source) -> str:
    """The shell for which a script is written."""
    found = _SHEBANG.match(source.text)
    return found[1] if found else "bash" if source.path.endswith(".bash") else "sh"


def line_ends(source: Source) -> Iterator[Finding]:
    if is_shell(source) and "\r\n" in source.text:
        yield Finding(
            source.path,
            TextLines(source.text).at(source.text.index("\r\n")),
            "error",
            "shell-crlf",
            "the lines end with CR LF: the shell takes the CR for a part of each last word",
            "save it with plain line ends",
            is_fixable=True,
            is_whole=True,
        )


def shell_rules(source: Source) -> Iterator[Finding]:
    """All rules, for systems without ShellCheck."""
    return _told(source, (*RULES, _CD))


def rules_beside_shellcheck(source: Source) -> Iterator[Finding]:
    """The rules ShellCheck does not have."""
    return _told(source, tuple(rule for rule in RULES if not rule.known_elsewhere))


def _told(source: Source, rules: tuple[ShellRule, ...]) -> Iterator[Finding]:
    if not is_shell(source):
        return
    is_sh = _is_sh(source)
    if _exits_on_error(source.text):
        rules = tuple(rule for rule in rules if rule is not _CD)
    written = source.text.split("\n")
    for number, line in enumerate(bare(source.text).split("\n"), 1):
        goes_on = written[number - 1].endswith("\\")  # the next line handles its failure
        for rule in rules if len(line) < LONGEST else ():
            found = rule.pattern.search(line) if is_sh or not rule.sh_only else None
            is_known = rule.code == "shell-unquoted-test" and found and _is_set(found[1], written, number)
            if found and not is_known and not (rule is _CD and goes_on):
                is_fixable = rule.code == "shell-equals-in-sh"
                yield Finding(source.path, number, rule.severity, rule.code, rule.message, rule.advice, is_fixable)


def _is_set(name: str, lines: Sequence[str], number: int) -> bool:
    """Whether a variable cannot be empty in a line, since all values assigned to it are words without blanks."""
    given = re.compile(rf"^(\s*)(?:(?:local|export|readonly|declare)\s+)?{name}=([^\s;&|]*)")
    otherwise = re.compile(rf"\b(?:read|for|unset|getopts|select)\b[^;&|]*\b{name}\b|[;&|(]\s*{name}=")
    indent = len(lines[number - 1]) - len(lines[number - 1].lstrip())
    found = [(at, assigned) for at, line in enumerate(lines, 1) if (assigned := given.match(line))]
    return (
        any(at < number and len(assigned[1]) <= indent for at, assigned in found)
        and all(_FULL.fullmatch(assigned[2]) for _, assigned in found)
        and not any(otherwise.search(line) for line in lines)
    )


def _is_sh(source: Source) -> bool:
    found = _SHEBANG.match(source.text)
    return bool(found) and interpreter(source) in ("sh", "dash", "ash")


def _exits_on_error(text: str) -> bool:
    found = _SHEBANG.match(text)
    return bool(_ERREXIT.search(text) or (found and re.search(r"\s-\w*e", found[2])))


def double_equals(source: Source) -> Iterator[tuple[int, int]]:
    """The places where an sh script has == in place of =."""
    if not is_shell(source) or not _is_sh(source):
        return
    rule = next(rule for rule in RULES if rule.code == "shell-equals-in-sh")
    start = 0
    for line in bare(source.text).split("\n"):
        yield from ((start + found.start(1), start + found.end(1)) for found in rule.pattern.finditer(line))
        start += len(line) + 1


def bare(text: str) -> str:
    """The script with quoted text, comments and here-documents replaced by blanks, character for character."""
    out: list[str] = []
    quotes: list[str] = []  # the open marks: `"`, and inside it `(` and `{` of expansions
    documents: list[tuple[str, bool]] = []  # the ends of the here-documents that begin on the next line
    at = 0
    while at < len(text):
        char = text[at]
        step = _Step.at(text, at, quotes)
        if char == "\n" and not quotes and documents:
            at = _skip_documents(text, at, documents, out)
            continue
        if not quotes and (found := _HEREDOC.match(text, at)):
            documents.append((found[3], bool(found[1])))
        out.append(step.shown)
        at += step.length
    return "".join(out)


class _Step(NamedTuple):
    """The replacement of the next characters, and how many they are."""

    shown: str
    length: int

    @staticmethod
    def at(text: str, at: int, quotes: list[str]) -> "_Step":
        char = text[at]
        if char == "\\":
            return _blank(text[at : at + 2])
        if char == "'" and (not quotes or quotes[-1] == "("):
            end = text.find("'", at + 1)
            return _quoted(text[at : end + 1 if end >= 0 else len(text)])
        if char == '"':
            _toggle(quotes)
            return _Step('"', 1)
        if quotes and char in "({)}":
            _nest(quotes, text, at)
        if not quotes and char == "#" and (at == 0 or text[at - 1] in " \t\n;&|("):
            end = text.find("\n", at)
            return _blank(text[at : end if end >= 0 else len(text)])
        return _Step(char if not quotes or char == "\n" else "_", 1)


def _toggle(quotes: list[str]) -> None:
    if quotes and quotes[-1] == '"':
        quotes.pop()
    else:
        quotes.append('"')


def _nest(quotes: list[str], text: str, at: int) -> None:
    """Track `$(…)` and `${…}` inside double quotes, where quoting begins again."""
    char = text[at]
    if char in "({" and (text[at - 1] == "$" or quotes[-1] in "({"):
        quotes.append(char)
    elif char in ")}" and quotes[-1] == {")": "(", "}": "{"}[char]:
        quotes.pop()


def _blank(text: str) -> _Step:
    return _Step(re.sub(r"[^\n]", " ", text), len(text))


def _quoted(text: str) -> _Step:
    return _Step("'" + re.sub(r"[^\n]", "_", text[1:-1]) + "'" if len(text) > 1 else "'", len(text))


def _skip_documents(text: str, at: int, documents: list[tuple[str, bool]], out: list[str]) -> int:
    """Replace here-documents by blanks; returns the offset after them."""
    while documents:
        word, may_be_indented = documents.pop(0)
        indent = r"\t*" if may_be_indented else ""
        end = re.compile(rf"^{indent}{word}$", re.MULTILINE).search(text, at + 1)
        stop = end.end() if end else len(text)
        out.append(re.sub(r"[^\n]", " ", text[at:stop]))
        at = stop
    return at

"""Read the output of linters: each function returns the findings in an output, with paths as printed."""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from ..checks.python import ADVICE
from ..findings import Finding, Severity

Reading = Callable[[bytes], Iterator[Finding]]

_RUFF_ERRORS = re.compile(r"E9|F50|F60|F52|F63|F7|F82|PLE|B012|S506|S602|S608")
_TSC = re.compile(r"^(.+?)\((\d+),\d+\): (error|warning) (TS\d+): (.*)$", re.MULTILINE)
_SHELL = re.compile(
    r"^[^\n]*?(?:line )?(\d+): (?:[^\n]*?(?:syntax error|Syntax error)[: ]*)([^\n]*)$", re.MULTILINE
)
_SEEMS_SAFE = "seems safe"  # Ruff's addition for a command that is a literal
_UNREAD = "E902"  # a file that Ruff could not open, which is not a finding about its content
_SECRET_RULES = ("B105", "B106", "B107")  # these messages repeat the secret; our own check finds it


class LinterEdit(NamedTuple):
    """A replacement that a linter offers for a range of a file; lines and columns count from 1."""

    start: tuple[int, int]
    end: tuple[int, int]
    content: str


def ruff(output: bytes) -> Iterator[Finding]:
    return (finding for finding, _ in ruff_repairs(output))


def ruff_repairs(output: bytes) -> Iterator[tuple[Finding, tuple[LinterEdit, ...]]]:
    """Ruff's findings, each with the edits that repair it."""
    for entry in _json(output, list):
        code = entry.get("code") or "invalid-syntax"
        if _SEEMS_SAFE in entry["message"] or code == _UNREAD:
            continue
        fix = entry.get("fix") or {}
        is_broken = code == "invalid-syntax"
        finding = Finding(
            entry["filename"],
            entry["location"]["row"],
            "error" if is_broken or _RUFF_ERRORS.match(code) else "warning",
            "syntax-error" if is_broken else code,
            _told(entry["message"]),
            ADVICE.get(code) or _told(fix.get("message") or "") or _look_up(code),
            is_fixable=fix.get("applicability") == "safe",
            is_whole=is_broken,
        )
        edits = fix.get("edits", ()) if finding.is_fixable else ()
        yield finding, tuple(map(_edit, edits))


def _edit(told: dict[str, Any]) -> LinterEdit:
    return LinterEdit(_place(told["location"]), _place(told["end_location"]), told["content"] or "")


def _place(location: dict[str, int]) -> tuple[int, int]:
    return location["row"], location["column"]


def _look_up(code: str) -> str:
    return "correct it" if code == "invalid-syntax" else f"/explain {code} says what to do"


def ty(output: bytes) -> Iterator[Finding]:
    for entry in _json(output, list):
        code = entry["check_name"]
        yield Finding(
            entry["location"]["path"],
            entry["location"]["positions"]["begin"]["line"],
            "warning" if entry["severity"] in ("info", "minor") else "error",
            code,
            _told(entry["description"].removeprefix(f"{code}: ")),
            "make the types agree, or say what is meant",
        )


def shellcheck(output: bytes) -> Iterator[Finding]:
    severities: dict[str, Severity] = {"error": "error", "warning": "warning"}
    for entry in _json(output, dict).get("comments", ()):
        yield Finding(
            entry["file"],
            entry["line"],
            severities.get(entry["level"], "note"),
            f"SC{entry['code']}",
            _told(entry["message"]),
            f"/explain SC{entry['code']} says more",
        )


def bandit(output: bytes) -> Iterator[Finding]:
    for entry in _json(output, dict).get("results", ()):
        if entry["test_id"] not in _SECRET_RULES:
            yield Finding(
                entry["filename"],
                entry["line_number"],
                "error" if entry["issue_severity"] == "HIGH" else "warning",
                entry["test_id"],
                _told(entry["issue_text"]),
                "check whether the value passed here can come from outside",
            )


def eslint(output: bytes) -> Iterator[Finding]:
    for file in _json(output, list):
        for entry in file["messages"]:
            if not entry.get("ruleId") and not entry.get("fatal"):
                continue  # a message about ESLint itself, such as that it ignores the file
            yield Finding(
                file["filePath"],
                entry.get("line") or 1,
                "error" if entry["severity"] == 2 else "warning",
                entry.get("ruleId") or "syntax-error",
                _told(entry["message"]),
                "as the project's ESLint rules want it",
            )


def tsc(output: bytes) -> Iterator[Finding]:
    for path, line, severity, code, message in _TSC.findall(output.decode(errors="replace")):
        kind: Severity = "error" if severity == "error" else "warning"
        yield Finding(path, int(line), kind, code, _told(message), "make the types agree")


def cargo(output: bytes) -> Iterator[Finding]:
    for line in output.splitlines():
        entry = _json(line, dict)
        message = entry.get("message") if entry.get("reason") == "compiler-message" else None
        span = next((span for span in (message or {}).get("spans", ()) if span["is_primary"]), None)
        if message and span:
            yield Finding(
                span["file_name"],
                span["line_start"],
                "error" if message["level"] == "error" else "warning",
                (message.get("code") or {}).get("code") or "rustc",
                _told(message["message"]),
                _advice_of(message) or "as the compiler asks",
            )


def _advice_of(message: dict[str, Any]) -> str:
    return next((_told(child["message"]) for child in message.get("children", ()) if child["level"] == "help"), "")


def go_vet(output: bytes) -> Iterator[Finding]:
    """Read comment lines, each followed by an object: package, then analyser, then its findings."""
    text = re.sub(rb"(?m)^#.*$", b"", output).decode(errors="replace")
    decoder, at = json.JSONDecoder(), 0
    while (start := text.find("{", at)) >= 0:
        try:
            packages, at = decoder.raw_decode(text, start)
        except ValueError:
            return
        for analysers in packages.values():
            for name, entries in analysers.items():
                for entry in entries if isinstance(entries, list) else ():
                    path, line, *_ = entry["posn"].rsplit(":", 2)
                    yield Finding(
                        path, int(line), "warning", f"vet-{name}", _told(entry["message"]), "see `go vet`"
                    )


def shell_syntax(output: bytes) -> Iterator[Finding]:
    """The errors of `sh -n`, which do not contain the path."""
    for line, said in _SHELL.findall(output[:2000].decode(errors="replace"))[:1]:
        yield Finding(
            "",
            int(line),
            "error",
            "shell-syntax",
            f"the shell cannot parse this: {_told(said) or 'syntax error'}",
            "nothing behind it runs until it is corrected",
            is_whole=True,
        )


def _told(message: str) -> str:
    """A message in one line, without its full stop."""
    return " ".join(message.split())[:300].removesuffix(".")


def _json(output: bytes, kind: type) -> Any:
    """The JSON that a linter printed; empty if it printed something else."""
    try:
        value = json.loads(output)
    except (ValueError, RecursionError):
        return kind()
    return value if isinstance(value, kind) else kind()

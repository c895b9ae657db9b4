"""External linters: their paths, when they apply, and how to run them."""

import asyncio
import os
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ...foundation.programs import own_command
from ..checks.shell import interpreter, is_shell
from ..findings import Finding, Source
from ..parsing import Parsed
from ..settings import by_ruff_settings, is_configured, ruff_choice
from . import outputs
from .commands import CommandError, Commands, ProgramResult, program_named

PER_COMMAND = 500  # files named in one command
PORTION = 16 * 1024 * 1024  # characters of the files that one process parses
SHELLS_AT_ONCE = 4


class Linter(Struct, frozen=True):
    """A program that checks files of some kinds."""

    name: str
    program: str
    suffixes: tuple[str, ...]
    arguments: Callable[["InstalledLinter"], Sequence[str]]
    reading: outputs.Reading
    # files of which one must exist; if none is listed, it always applies
    settings: tuple[tuple[str, str], ...] = ()
    takes_files: bool = True  # otherwise it checks the whole project
    from_stdin: Sequence[str] = ()  # the arguments for an unsaved text, before the file's name
    runs_project_code: bool = False  # it runs code of the project, so the user is asked first
    in_stderr: bool = False
    env: Mapping[str, str] = {}
    good_codes: tuple[int, ...] = (0, 1)


class InstalledLinter(Struct, frozen=True):
    """An installed linter, in a project."""

    linter: Linter
    path: str
    cwd: str
    settings: str = ""  # the directory whose settings apply, if it is not `cwd`

    def is_configured(self, *places: tuple[str, str]) -> bool:
        return is_configured(self.cwd, *places)

    @property
    def command(self) -> str:
        return f"{os.path.basename(self.path)} {' '.join(self.linter.arguments(self)[:2])}".strip()


def _ruff(tool: InstalledLinter) -> Sequence[str]:
    words = ("check", "--quiet", "--no-cache", "--no-fix", "--exit-zero", "--output-format", "json")
    return (*words, *ruff_choice(tool.settings or tool.cwd))


def _ty(tool: InstalledLinter) -> Sequence[str]:
    return ("check", "--output-format", "gitlab", "--no-progress", "--exit-zero", "--project", tool.cwd)


def _bandit(tool: InstalledLinter) -> Sequence[str]:
    if tool.is_configured(("pyproject.toml", "bandit")):
        return ("-f", "json", "-q", "-c", "pyproject.toml")
    return ("-f", "json", "-q", "-ll")


PYTHON = (".py", ".pyi")
SCRIPT = (".js", ".jsx", ".mjs", ".cjs", ".ts", ".tsx")
ESLINT = (
    *((f"eslint.config.{kind}", "") for kind in ("js", "mjs", "cjs", "ts")),
    *((f".eslintrc{kind}", "") for kind in ("", ".js", ".cjs", ".json", ".yml", ".yaml")),
)
LINTERS = (
    Linter("Ruff", "ruff", PYTHON, _ruff, outputs.ruff, from_stdin=("--stdin-filename",)),
    # In code that was not written for a type checker, most of its findings are not mistakes.
    Linter("ty", "ty", PYTHON, _ty, outputs.ty, settings=(("ty.toml", ""), ("pyproject.toml", "ty"))),
    Linter("ShellCheck", "shellcheck", (".sh", ".bash"), lambda _: ("-f", "json1"), outputs.shellcheck),
    Linter("Bandit", "bandit", (".py",), _bandit, outputs.bandit),
    Linter(
        "ESLint",
        "eslint",
        SCRIPT,
        lambda _: ("--format", "json", "--no-error-on-unmatched-pattern"),
        outputs.eslint,
        settings=ESLINT,
        from_stdin=("--stdin", "--stdin-filename"),
        runs_project_code=True,
    ),
    Linter(
        "TypeScript",
        "tsc",
        (".ts", ".tsx"),
        lambda _: ("--noEmit", "--pretty", "false", "--project", "."),
        outputs.tsc,
        settings=(("tsconfig.json", ""),),
        takes_files=False,
        runs_project_code=True,
        good_codes=(0, 1, 2),
    ),
    Linter(
        "Cargo",
        "cargo",
        (".rs",),
        lambda _: ("check", "--quiet", "--offline", "--message-format", "json"),
        outputs.cargo,
        settings=(("Cargo.toml", ""),),
        takes_files=False,
        runs_project_code=True,
        good_codes=(0, 101),
    ),
    Linter(
        "go vet",
        "go",
        (".go",),
        lambda _: ("vet", "-json", "./..."),
        outputs.go_vet,
        settings=(("go.mod", ""),),
        takes_files=False,
        runs_project_code=True,
        in_stderr=True,
        env={"GOPROXY": "off", "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly"},
    ),
)


def tools_for(cwd: str, sources: Sequence[Source]) -> list[InstalledLinter]:
    """The installed linters that have files to check."""
    return [
        InstalledLinter(linter, path, cwd)
        for linter in LINTERS
        if any(source.path.endswith(linter.suffixes) and not source.is_fragment for source in sources)
        and (not linter.settings or is_configured(cwd, *linter.settings))
        and (path := _project_program(linter, cwd) or program_named(linter.program, cwd))
    ]


def _project_program(linter: Linter, cwd: str) -> str | None:
    """The project's own copy of a linter that runs code of the project anyway."""
    own = os.path.join(cwd, "node_modules", ".bin", linter.program)
    return own if linter.runs_project_code and os.access(own, os.X_OK) else None


async def findings_of(tool: InstalledLinter, commands: Commands, sources: Sequence[Source]) -> list[Finding]:
    """Run a linter on files; findings from the disk count only for saved files."""
    linter = tool.linter
    whole = [source for source in sources if source.path.endswith(linter.suffixes) and not source.is_fragment]
    saved = {source.path for source in whole if source.is_saved}
    found: list[Finding] = []
    for asked, paths in by_settings(tool, sorted(saved)):
        for names in _commands(linter, paths):
            found += _placed(await _asked(asked, commands, names), tool.cwd, saved)
    for source in whole if linter.from_stdin else ():
        if not source.is_saved:
            ((asked, _),) = by_settings(tool, [source.path])
            said = await _asked(asked, commands, (*linter.from_stdin, f"./{source.path}"), source.text.encode())
            found += [replace(finding, path=source.path) for finding in said]
    return found


def by_settings(tool: InstalledLinter, paths: Sequence[str]) -> list[tuple[InstalledLinter, Sequence[str]]]:
    """The linter for each group of files, by the settings that apply to them."""
    if tool.linter.program != "ruff" or not paths:
        return [(tool, paths)]
    found = by_ruff_settings(tool.cwd, paths)
    return [(replace(tool, settings=directory), names) for directory, names in found.items()]


def _commands(linter: Linter, names: Sequence[str]) -> Iterator[Sequence[str]]:
    if not names:
        return
    if not linter.takes_files:
        yield ()
        return
    for start in range(0, len(names), PER_COMMAND):
        yield ("--", *names[start : start + PER_COMMAND])


async def _asked(
    tool: InstalledLinter, commands: Commands, words: Sequence[str], stdin: bytes | None = None
) -> list[Finding]:
    linter = tool.linter
    last = ("-",) if stdin is not None and "--stdin" not in words else ()
    argv = [tool.path, *linter.arguments(tool), *words, *last]
    result = await commands.run(argv, cwd=tool.cwd, stdin=stdin or b"", env=linter.env)
    if result.code not in linter.good_codes:
        raise CommandError(f"{linter.name} ended with status {result.code}{_last_words(result)}")
    return list(linter.reading(result.stderr if linter.in_stderr else result.stdout))


def _last_words(result: ProgramResult) -> str:
    lines = (result.stderr or result.stdout).decode(errors="replace").strip().splitlines()
    return f": {lines[-1][:200]}" if lines else ""


def _placed(findings: Sequence[Finding], cwd: str, known: set[str]) -> Iterator[Finding]:
    """The findings in the requested files, under their names here."""
    for finding in findings:
        path = os.path.relpath(os.path.join(cwd, finding.path), cwd)
        if path in known:
            yield replace(finding, path=path)


async def parsed(commands: Commands, cwd: str, sources: Sequence[Source]) -> tuple[list[Finding], list[str]]:
    """Parse files with grammars in separate processes; returns the findings, and the unreadable files."""
    found: list[Finding] = []
    unread: list[str] = []
    waiting = list(_portions(sources))
    while waiting:
        portion = waiting.pop()
        given = msgspec.json.encode([(source.path, source.text) for source in portion])
        try:
            result = await commands.run(own_command("dragoman.reviewer.parsing"), cwd=cwd, stdin=given)
            answer = msgspec.json.decode(result.stdout, type=Parsed)
        except (CommandError, msgspec.DecodeError):
            if len(portion) > 1:  # one of these files is the cause
                middle = len(portion) // 2
                waiting += [portion[:middle], portion[middle:]]
            else:
                unread.append(portion[0].path)
        else:
            found += answer.findings
            unread += answer.unread
    return found, unread


def _portions(sources: Sequence[Source]) -> Iterator[list[Source]]:
    """The files in portions for one process each."""
    portion: list[Source] = []
    letters = 0
    for source in sources:
        if portion and (letters + len(source.text) > PORTION or len(portion) >= PER_COMMAND):
            yield portion
            portion, letters = [], 0
        portion.append(source)
        letters += len(source.text)
    if portion:
        yield portion


async def shell_syntax(commands: Commands, cwd: str, sources: Sequence[Source]) -> list[Finding]:
    """Let shells parse scripts without running them."""
    room = asyncio.Semaphore(SHELLS_AT_ONCE)

    async def parse(source: Source) -> list[Finding]:
        shell = program_named(interpreter(source), cwd) or program_named("sh", cwd)
        if shell is None or "\r\n" in source.text:
            return []
        try:
            async with room:
                result = await commands.run([shell, "-n"], cwd=cwd, stdin=source.text.encode(), timeout=20)
        except CommandError:  # a shell that cannot be run finds nothing
            return []
        last = source.text.rstrip("\n").count("\n") + 1  # shells report a missing end after the last line
        return [
            replace(finding, path=source.path, line=min(finding.line, last))
            for finding in outputs.shell_syntax(result.stderr)
        ]

    scripts = [source for source in sources if is_shell(source) and not source.is_fragment]
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(parse(source)) for source in scripts]
    return [finding for task in tasks for finding in task.result()]

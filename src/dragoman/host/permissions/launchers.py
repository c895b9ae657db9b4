"""Programs that run what their arguments say, so that "any further arguments" would mean anything at all."""

import re
from collections.abc import Sequence

_LAUNCHERS = """
    sh bash dash ash zsh ksh mksh fish csh tcsh rbash nu elvish xonsh pwsh powershell cmd busybox toybox

    env xargs parallel sudo doas su runuser pkexec sg newgrp nohup setsid timeout time nice ionice chrt taskset
    stdbuf unbuffer chroot unshare nsenter setpriv capsh bwrap firejail systemd-run start-stop-daemon watch entr
    script expect strace ltrace gdb lldb perf valgrind rlwrap flock chpst runcon fakeroot faketime proot cpulimit
    run-parts xvfb-run dbus-launch dbus-run-session at batch crontab tmux screen xterm command exec eval source
    builtin trap coproc linux setarch prlimit choom numactl catchsegv softlimit

    ssh scp sftp rsync mosh telnet ftp curl wget aria socat nc ncat netcat docker podman nerdctl kubectl oc buildah
    vagrant ansible

    make gmake bmake cmake ninja meson just task rake ant mvn gradle gradlew scons bazel tox nox invoke grunt gulp
    gcc g++ cc c++ clang clang++ ld javac

    python pypy ipython node nodejs deno tsx ts-node ruby irb perl php lua luajit tclsh wish r rscript julia java
    jshell groovy scala kotlin ghci runghc racket guile sbcl clisp emacs osascript awk gawk mawk nawk sed ed ex vi
    vim nvim view nano less more most man info m4 dc bc sqlite psql mysql mongo mongosh redis-cli gnuplot octave tex
    latex pdflatex

    tar bsdtar gtar cpio zip unzip 7z split sort find fd fdfind tee dd install

    npx pnpx bunx uvx pipx pip easy_install gem bundle bundler poetry pipenv pdm hatch rye conda mamba nix nix-shell
"""
_ANYTHING = frozenset(_LAUNCHERS.split())

# Programs that are safe to leave open-ended once a rule says which of their commands it means.
_COMMANDS = {
    "git": "status log show diff rev-parse rev-list ls-files ls-tree blame describe shortlog add",
    "cargo": "test build check clippy fmt doc tree metadata bench",
    "go": "test build vet fmt list doc version",
    "npm": "test t tst start stop restart ls list outdated view audit",
    "pnpm": "test t start stop ls list outdated audit",
    "yarn": "test start stop list outdated audit why",
    "bun": "test",
    "uv": "lock sync tree version",
    "dotnet": "test build restore",
}
# `npm run NAME` runs what the package file says under that name.
_SCRIPTS = frozenset(("npm", "pnpm", "yarn", "bun"))

# Options that name a program to run, code or settings to load, or a file to write, in whatever program.
_RISKY = re.compile(
    "exec|command|cmd|program|pager|editor|shell|eval|hook|plugin|preload|require|import|loader|conf|script|rsh|"
    "filter|wrapper|runner|outp|outfile|out-|upload-pack|receive-pack|options|askpass|proxy|prefix|rcfile|init|"
    "override|compress|ext-diff|textconv|open-files|template|module|modfile|overlay|tool|flags|manifest|"
    "dir|reporter|transform|environment|delete|include|define|set-|cwd|root|pyargs|-bin",
    re.IGNORECASE,
)
_RISKY_LETTERS = {
    "git": "Oc",
    "go": "oC",
    "cargo": "ZC",
    "npm": "Cc",
    "pnpm": "Cc",
    "pytest": "pco",
    "eslint": "co",
    "tsc": "pb",
    "jest": "c",
    "vitest": "c",
    "ruff": "o",
    "mypy": "pmc",
}


def program(word: str) -> str:
    """The program a word names, without its directory and version."""
    name = word.replace("\\", "/").rpartition("/")[2].casefold().removesuffix(".exe")
    return re.sub(r"(?<=[a-z])[-.]?[0-9][0-9.]*$", "", name) or name


def is_launcher(argv: Sequence[str]) -> bool:
    """Whether a command may run another program that its arguments name."""
    return not argv or why_not_open(argv) is not None


def why_not_open(fixed: Sequence[str]) -> str | None:
    """Why a rule must not end in "any further arguments" after these words; None when it may."""
    name = program(fixed[0])
    if name in _ANYTHING or name.startswith(("ld-", "ld.so")):
        return f"{name} runs, loads or writes whatever its arguments say"
    if (known := _COMMANDS.get(name)) is None:
        return None
    sub = fixed[1] if len(fixed) > 1 else ""
    if sub in known.split() or (name in _SCRIPTS and sub in ("run", "run-script") and _is_script(fixed[2:])):
        return None
    if name in _SCRIPTS and sub in ("run", "run-script"):
        return f"{name} {sub} runs whatever script the next argument names"
    if not sub or sub.startswith(("-", "+")):
        return f"{name} runs other programs with some of its options and commands"
    return f"{name} {sub} can be made to run other programs by its arguments"


def _is_script(words: Sequence[str]) -> bool:
    return bool(words) and not words[0].startswith("-")


def is_risky_option(name: str, word: str) -> bool:
    """Whether a word is an option that may make a program run, load or write something of the caller's choosing."""
    if not word.startswith("-") or word in ("-", "--"):
        return False
    option, _, _ = word.lstrip("-").partition("=")
    if not word.startswith("--"):
        # Letters come in clusters, but for go, whose long options have one dash.
        known = program(name)
        cluster = "" if known == "go" and len(option) > 1 else option
        if not set(cluster).isdisjoint(_RISKY_LETTERS.get(known, "")):
            return True
        return len(option) > 1 and _RISKY.search(option) is not None
    return _RISKY.search(option) is not None or _abbreviates(option)


def _abbreviates(option: str) -> bool:
    """Whether a long option could be short for a risky one, as many programs allow."""
    return 1 < len(option) < 6 and any(risky.startswith(option) for risky in _RISKY.pattern.split("|"))

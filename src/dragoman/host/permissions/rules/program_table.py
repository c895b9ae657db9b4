"""A table of programs' harmless arguments, with which they run, load or write nothing of a caller's choosing.

`...` at the end of a rule stands for these arguments and for no others.  A rule about a program, a command or an
option that is not in this table has to name every word.
"""

import re
from collections.abc import Sequence

from msgspec import Struct


class FurtherArguments(Struct, frozen=True):
    """The further arguments of a program that are harmless.

    `letters` are options of one letter, which may be combined; after a letter of `valued`, the rest of the word is
    a value.  `words` are long options, with two dashes, or with one if `short` is set.  There may be `operands`
    other words, each like `operand`.  `after` describes the arguments after `--`, which go to another program.
    """

    letters: str = ""
    valued: str = ""
    words: frozenset[str] = frozenset()
    short: bool = False
    operands: int | None = None
    operand: str = r"[^@].*|"  # many programs read further options from a file that is named with an @
    after: "FurtherArguments | None" = None

    def covers(self, said: Sequence[str], further: Sequence[str]) -> bool:
        """Whether all words after those in a rule are harmless."""
        operands = sum(not word.startswith("-") for word in said)
        tail = (self.after or self) if "--" in said else self
        for word in further:
            if word == "--":
                tail = self.after or self
            elif word.startswith("-") and word != "-":
                if not tail._has_option(word):
                    return False
            else:
                operands += 1
                if not re.fullmatch(tail.operand, word, re.DOTALL):
                    return False
        return self.operands is None or operands <= self.operands

    def _has_option(self, word: str) -> bool:
        name = word.lstrip("-").partition("=")[0]
        if word.startswith("--") or self.short:
            return name in self.words
        for position, letter in enumerate(word[1:], 1):
            if letter in self.valued or word[position:].isdigit():
                return True
            if letter not in self.letters:
                return False
        return True


def _tail(
    letters: str = "",
    valued: str = "",
    words: str = "",
    *,
    short: bool = False,
    operands: int | None = None,
    operand: str = FurtherArguments().operand,
    after: FurtherArguments | None = None,
) -> FurtherArguments:
    return FurtherArguments(letters, valued, frozenset(words.split()), short, operands, operand, after)


ANY = r".*"  # an operand that is a text or the name of a file to read

_LOG = _tail(
    "abcgimpqrstuwzEFPR",
    "nlBCGLMSU",
    """abbrev abbrev-commit after ahead-behind all all-match ancestry-path author author-date-order before boundary
    branch branches cached check cherry cherry-mark cherry-pick color color-words column committer cumulative
    date date-order decorate diff-algorithm diff-filter dirstat exclude-standard exit-code extended-regexp
    find-copies find-renames first-parent fixed-strings follow format full-history full-index function-context
    graph grep histogram ignore-all-space ignore-blank-lines ignore-space-at-eol ignore-space-change
    ignore-submodules ignored inter-hunk-context invert-grep left-only left-right long max-count merge-base
    merges minimal name-only name-status no-abbrev no-color no-decorate no-ext-diff no-merges no-notes no-patch
    no-renames no-textconv notes null numstat oneline patch patch-with-stat patience perl-regexp pickaxe-all
    pickaxe-regex porcelain pretty quiet raw regexp-ignore-case relative relative-date remotes renames reverse
    right-only short shortstat show-stash simplify-by-decoration since skip source staged stat stat-count
    stat-width submodule summary tags text topo-order unified untracked-files until word-diff word-diff-regex""",
    operand=ANY,
)
_CARGO = """all all-features all-targets bench benches bin bins color doc example examples exclude features frozen
    ignored jobs keep-going lib locked message-format no-default-features no-deps no-fail-fast no-run offline
    package profile quiet release test tests verbose workspace"""
_LIBTEST = _tail(
    "q", "", "color exact format ignored include-ignored list nocapture quiet show-output skip test-threads"
)
_GO = "v x n a race tags p trimpath json"
# Options that all test runners and linters of JavaScript have in common, because a script may run any of them.
_SCRIPT = _tail(
    "bgiqstvw",
    "",
    """bail ci color colors coverage detectOpenHandles fix forceExit grep listTests max-warnings maxWorkers
    no-color noEmit onlyChanged passWithNoTests quiet retries run runInBand shard silent testNamePattern
    testPathPattern timeout verbose watch watchAll""",
)
_NPM_RUN = _tail("s", "", "if-present silent verbose", after=_SCRIPT)
_NPM_LIST = _tail("agl", "", "all depth global json long parseable production", operand=ANY)
_UV = _tail(
    "qv",
    "",
    "all-extras all-groups check depth dev dry-run extra frozen group locked no-dev offline quiet verbose",
)
_DIGEST = _tail("bctwz", "", "check ignore-missing quiet status tag text", operand=ANY)

# A program, or a program and one of its commands, and what may follow.
TABLE: dict[str, FurtherArguments] = {
    # reading
    "cat": _tail("AbEenstTuv", "", "number show-all squeeze-blank", operand=ANY),
    "tac": _tail("b", "s", operand=ANY),
    "head": _tail("qvz", "cn", "bytes lines quiet verbose", operand=ANY),
    "tail": _tail("qvz", "cn", "bytes lines quiet verbose", operand=ANY),
    "wc": _tail("clmwL", "", "bytes chars lines max-line-length words", operand=ANY),
    "nl": _tail("p", "bdfhilnsvw", operand=ANY),
    "od": _tail("bcdfilosvx", "AjNStw", operand=ANY),
    "strings": _tail("afow", "ent"),
    "cut": _tail("nsz", "bcdf", "bytes characters complement delimiter fields only-delimited", operand=ANY),
    "tr": _tail("cCdst", "", "complement delete squeeze-repeats truncate-set1", operand=ANY),
    "fold": _tail("bs", "w", operand=ANY),
    "paste": _tail("sz", "d", operand=ANY),
    "comm": _tail("123z", "", "check-order nocheck-order total", operand=ANY),
    "uniq": _tail("cdDiuz", "fsw", "all-repeated count ignore-case repeated unique", operands=1, operand=ANY),
    "rev": _tail(operand=ANY),
    "diff": _tail(
        "abBcdeEinNpqrstTuwyZ",
        "CFILUWx",
        """brief color context exclude ignore-all-space ignore-blank-lines ignore-case ignore-space-change minimal
        new-file recursive report-identical-files side-by-side suppress-common-lines text unified width""",
        operand=ANY,
    ),
    "cmp": _tail("bls", "in", "bytes ignore-initial print-bytes quiet silent verbose", operand=ANY),
    "md5sum": _DIGEST,
    "sha1sum": _DIGEST,
    "sha256sum": _DIGEST,
    "sha512sum": _DIGEST,
    "cksum": _tail(operand=ANY),
    "grep": (
        _GREP := _tail(
            "abchHiIlLnoqrRsTUvwxyzZEFGP",
            "ABCdDem",
            """after-context basic-regexp before-context binary-files byte-offset color colour context count
            dereference-recursive exclude exclude-dir extended-regexp files-with-matches files-without-match
            fixed-strings ignore-case include initial-tab invert-match line-number line-regexp max-count
            no-filename no-messages null null-data only-matching perl-regexp quiet recursive regexp silent text
            with-filename word-regexp""",
            operand=ANY,
        )
    ),
    "egrep": _GREP,
    "fgrep": _GREP,
    "rg": _tail(
        "0acFHiIlnNopPqsSuUvwx",
        "ABCdegjmMrtT",
        """after-context before-context case-sensitive color colors column context count count-matches files
        files-with-matches files-without-match fixed-strings glob heading hidden iglob ignore-case invert-match
        json line-number line-regexp max-columns max-count max-depth max-filesize multiline no-filename
        no-heading no-ignore no-ignore-vcs no-line-number no-messages null only-matching passthru pcre2 pretty
        quiet regexp replace smart-case sort sortr stats text threads trim type type-list type-not unrestricted
        vimgrep with-filename word-regexp""",
        operand=ANY,
    ),
    "jq": _tail(
        "aceCjMnrRsS",
        "",
        """arg argjson ascii-output color-output compact-output exit-status indent join-output monochrome-output
        null-input raw-input raw-output seq slurp sort-keys tab""",
        operand=ANY,
    ),
    # looking around
    "ls": _tail(
        "aAbBcCdfFgGhHiklLmnNopqQrRsStuUvxXZ1",
        "ITw",
        """all almost-all author classify color directory file-type format full-time group-directories-first
        human-readable ignore-backups inode numeric-uid-gid recursive reverse size sort time time-style""",
        operand=ANY,
    ),
    "tree": _tail(
        "aACdDfFgGhiJlnNpqQrsStuUvxX",
        "ILP",
        "dirsfirst du filelimit gitignore matchdirs noreport prune si sort",
        operand=ANY,
    ),
    "stat": _tail("fLt", "c", "dereference file-system format printf terse", operand=ANY),
    "file": _tail("0bhikLNprs", "F", "brief dereference keep-going mime mime-encoding mime-type raw", operand=ANY),
    "du": _tail(
        "0abchHklLmPsSx",
        "Bdt",
        "all apparent-size bytes human-readable max-depth summarize total",
        operand=ANY,
    ),
    "df": _tail("ahHiklPT", "Btx", "all human-readable inodes local print-type total", operand=ANY),
    "realpath": _tail("eLmPqsz", "", "canonicalize-existing canonicalize-missing no-symlinks quiet", operand=ANY),
    "readlink": _tail("efmnqsvz", "", "canonicalize no-newline", operand=ANY),
    "basename": _tail("az", "s", "multiple suffix zero", operand=ANY),
    "dirname": _tail("z", "", "zero", operand=ANY),
    "pwd": _tail("LP", operands=0),
    "which": _tail("as", operand=ANY),
    "id": _tail("agGnruzZ", operand=ANY),
    "whoami": _tail(operands=0),
    "uname": _tail("aimnoprsv", "", "all", operands=0),
    "hostname": _tail("AdfiIs", operands=0),
    "uptime": _tail("ps", operands=0),
    "free": _tail("bghklmtw", operands=0),
    "nproc": _tail("", "", "all", operands=0),
    "ps": _tail("aAdefFHjlLTwx", "Cgopu", "forest format headers no-headers pid sort", operand=ANY),
    "date": _tail("Ru", "dI", "date iso-8601 rfc-3339 rfc-email utc", operand=r"\+.*"),
    "seq": _tail("w", "fs", operand=ANY),
    "sleep": _tail(),
    "true": _tail(operand=ANY),
    "false": _tail(operand=ANY),
    "echo": _tail("eEn", operand=ANY),
    # git, by its commands
    **dict.fromkeys(("git status", "git log", "git show", "git diff", "git shortlog", "git rev-list"), _LOG),
    "git rev-parse": _tail(
        "q",
        "",
        """abbrev-ref absolute-git-dir git-common-dir git-dir is-bare-repository is-inside-git-dir
        is-inside-work-tree quiet short show-cdup show-prefix show-toplevel symbolic-full-name verify""",
        operand=ANY,
    ),
    "git ls-files": _tail(
        "cdfikmostuvz",
        "x",
        "cached deleted directory error-unmatch exclude-standard full-name ignored modified others stage unmerged",
        operand=ANY,
    ),
    "git ls-tree": _tail("dlrtz", "", "full-name full-tree long name-only object-only", operand=ANY),
    "git blame": _tail(
        "belpstw",
        "CLM",
        "abbrev color-by-age color-lines date incremental line-porcelain minimal porcelain root show-email since",
        operand=ANY,
    ),
    "git describe": _tail(
        "", "", "abbrev all always contains dirty exact-match exclude first-parent long match tags", operand=ANY
    ),
    "git add": _tail("AfnNuv", "", "all dry-run force intent-to-add update verbose", operand=ANY),
    # tests, checks and builds, which only run the code of the workspace
    "pytest": _tail(
        "hlqsvVx",
        "kmnr",
        """capture co collect-only color cov deselect durations durations-min exitfirst failed-first ff fixtures
        ignore ignore-glob keep-duplicates last-failed lf log-cli-level markers maxfail new-first nf no-cov
        no-header no-summary numprocesses quiet reruns runxfail setup-plan setup-show show-capture showlocals
        stepwise strict-config strict-markers sw tb timeout verbose""",
    ),
    "ruff check": _tail(
        "neqsv",
        "",
        """diff exclude exit-zero extend-ignore extend-select ignore line-length no-cache no-fix output-format
        preview quiet respect-gitignore select show-files show-fixes silent statistics target-version verbose
        watch""",
    ),
    "ruff format": _tail(
        "nqsv", "", "check diff exclude line-length no-cache preview quiet target-version verbose"
    ),
    "mypy": _tail(
        "hvV",
        "",
        """check-untyped-defs disallow-any-generics disallow-untyped-defs hide-error-context ignore-missing-imports
        namespace-packages no-color-output no-error-summary no-incremental pretty python-version
        show-column-numbers show-error-codes show-error-context strict verbose warn-unreachable
        warn-unused-ignores""",
    ),
    "black": _tail(
        "qvS", "lt", "check color diff fast line-length quiet safe skip-string-normalization target-version verbose"
    ),
    "isort": _tail("cqv", "l", "check check-only diff line-length quiet verbose"),
    "flake8": _tail(
        "qv",
        "j",
        """count exclude extend-exclude extend-ignore extend-select exit-zero ignore max-complexity max-line-length
        quiet select show-source statistics verbose""",
    ),
    "pylint": _tail("E", "dej", "disable enable errors-only jobs max-line-length score"),
    "pyright": _tail("", "", "level outputjson pythonversion stats verbose warnings"),
    "gofmt": _tail("", "", "d e l s", short=True),
    "eslint": _tail(
        "hv",
        "",
        """color debug ext ignore-pattern max-warnings no-color no-error-on-unmatched-pattern no-ignore
        no-inline-config quiet report-unused-disable-directives rule""",
    ),
    "prettier": _tail("clu", "", "check color ignore-unknown list-different log-level no-color no-config"),
    "tsc": _tail("hvw", "", "listFiles noEmit preserveWatchOutput pretty skipLibCheck strict version watch"),
    "jest": _tail(
        "bhiov",
        "tw",
        """bail ci color coverage detectOpenHandles errorOnDeprecated expand findRelatedTests forceExit json
        listTests logHeapUsage maxWorkers no-cache no-coverage onlyChanged onlyFailures passWithNoTests
        randomize runInBand seed shard showSeed silent testNamePattern testPathPattern testPathPatterns verbose
        watch watchAll""",
    ),
    "vitest": _tail(
        "hvw",
        "t",
        """allowOnly bail changed color hideSkippedTests maxWorkers no-color passWithNoTests retry run shard silent
        testNamePattern watch""",
    ),
    "mocha": _tail(
        "bhiw",
        "fgjst",
        """allow-uncaught bail check-leaks color diff exit fgrep forbid-only forbid-pending full-trace grep
        inline-diffs invert jobs no-color no-diff parallel recursive retries slow sort timeout watch""",
    ),
    **dict.fromkeys(("cargo test", "cargo bench"), _tail("hqv", "jpF", _CARGO, after=_LIBTEST)),
    **dict.fromkeys(("cargo build", "cargo check", "cargo doc"), _tail("hqvr", "jpF", _CARGO)),
    "cargo clippy": _tail("hqv", "jpF", _CARGO, after=_tail("", "ADFW")),
    "cargo fmt": _tail("hqv", "p", "all check package quiet verbose", after=_tail("lqv", "", "check edition")),
    "cargo tree": _tail("hqv", "deipF", f"{_CARGO} depth duplicates edges format invert no-dedupe prefix target"),
    "cargo metadata": _tail("qv", "F", "all-features features format-version locked no-deps offline quiet"),
    "go test": _tail(
        "",
        "",
        f"""{_GO} bench benchmem benchtime count cover covermode coverpkg cpu failfast fullpath list parallel run
        short shuffle skip timeout vet""",
        short=True,
    ),
    "go build": _tail("", "", _GO, short=True),
    "go vet": _tail("", "", f"{_GO} c", short=True),
    "go fmt": _tail("", "", "n x", short=True),
    "go list": _tail("", "", f"{_GO} compiled deps e f find m retracted test u versions", short=True),
    "go doc": _tail("", "", "all c cmd short src u", short=True),
    "go version": _tail("", "", "m v", short=True),
    **{
        f"npm {name}": _NPM_RUN
        for name in ("test", "t", "tst", "start", "stop", "restart", "run *", "run-script *")
    },
    **{f"npm {name}": _NPM_LIST for name in ("ls", "list", "outdated", "view")},
    "npm audit": _tail("", "", "audit-level json omit production", operands=0),
    # These pass unknown options on to the script.
    **{f"{name} {what}": _SCRIPT for name in ("pnpm", "yarn") for what in ("test", "start", "stop", "run *")},
    "pnpm t": _SCRIPT,
    "bun run *": _SCRIPT,
    **{f"pnpm {name}": _NPM_LIST for name in ("ls", "list", "outdated")},
    **{f"yarn {name}": _NPM_LIST for name in ("list", "outdated", "why")},
    "pnpm audit": _tail("DP", "", "audit-level dev json no-optional prod", operands=0),
    "yarn audit": _tail("", "", "groups json level", operands=0),
    "bun test": _tail("t", "t", "bail coverage only rerun-each test-name-pattern timeout todo watch"),
    **dict.fromkeys(("uv lock", "uv sync", "uv tree"), _UV),
    "uv version": _tail("qv", operands=0),
    # MSBuild takes its options with a slash, too.
    **dict.fromkeys(
        ("dotnet test", "dotnet build", "dotnet restore"),
        _tail(
            "cv",
            "",
            "configuration filter framework list-tests no-build no-restore nologo verbosity",
            operand=r"[^/@].*",
        ),
    ),
}

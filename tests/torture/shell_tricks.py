"""Commands that try to pass for one the user allowed, and commands that are."""

from dragoman.host.operations import Execute

CWD = "/home/ada/project"

RULES = """
[[allow]]
operation = "terminal_execute"
argv = ["ls"]

[[allow]]
operation = "terminal_execute"
argv = ["git", "status"]

[[allow]]
operation = "terminal_execute"
argv = ["make", "test"]

[[allow]]
operation = "terminal_execute"
argv = ["python", "-m", "pytest"]

[[allow]]
operation = "terminal_execute"
argv = ["bash", "scripts/build.sh"]

[[allow]]
operation = "terminal_execute"
argv = ["npm", "test", "..."]

[[allow]]
operation = "terminal_execute"
argv = ["npm", "run", "lint", "..."]

[[allow]]
operation = "terminal_execute"
argv = ["git", "log", "..."]

[[allow]]
operation = "terminal_execute"
argv = ["cat", "..."]

[[allow]]
operation = "terminal_execute"
argv = ["grep", "..."]

[[allow]]
operation = "terminal_execute"
argv = ["pytest", "..."]

[[allow]]
operation = "terminal_execute"
argv = ["go", "test", "..."]

[[allow]]
operation = "terminal_execute"
argv = ["cargo", "test", "..."]

[[allow]]
operation = "terminal_execute"
argv = ["npm", "ci"]
env = { CI = "1" }

[[allow]]
operation = "terminal_execute"
shell = "npm test"

[[allow]]
operation = "terminal_execute"
shell = "ls -la | head"

[[allow]]
operation = "terminal_execute"
shell = "git status && git diff"

[[allow]]
operation = "terminal_execute"
shell = "make test 2>&1"
"""


def run(*argv: str, cwd: str = CWD, **env: str) -> Execute:
    return Execute(argv=argv, cwd=cwd, env=tuple(env.items()))


def sh(text: str, cwd: str = CWD, **env: str) -> Execute:
    return Execute(argv=("/bin/sh", "-c", text), cwd=cwd, env=tuple(env.items()), shell=True)


_STRINGS = (
    # One command after another.
    "npm test; rm -rf ~", "npm test;rm -rf ~", "npm test && rm -rf ~", "npm test || rm -rf ~", "npm test | sh",
    "npm test |& sh", "npm test & rm -rf ~", "npm test\nrm -rf ~", "npm test\r\nrm -rf ~", "npm test\rrm -rf ~",
    "rm -rf ~; npm test", "rm -rf ~ && npm test", "! npm test", "npm test;", "npm test &", "npm test &&",
    "{ npm test; rm -rf ~; }", "(npm test; rm -rf ~)", "(npm test)", "npm test\n", "\nnpm test",
    "npm test \\\n; rm x",
    "npm test;;", "npm test | tee ~/.bashrc", "npm test 2>&1", "npm test > ~/.bashrc", "npm test >> ~/.profile",
    "npm test >| x", "npm test < /etc/passwd", "npm test <> x", "npm test <<< x", "npm test << EOF\nx\nEOF",
    # What is run before, or instead.
    "npm test $(rm -rf ~)", "npm test `rm -rf ~`", "npm $(echo test)", "$(echo npm) test", "`echo npm` test",
    "npm test <(rm -rf ~)", "npm test >(sh)", "npm test ${x:-$(rm -rf ~)}", "npm test $((a[$(rm -rf ~)]))",
    "npm test $[ x='a[$(touch FLAG)]' ]", "echo $[ x='a[$(touch FLAG)]' ]", "npm test ${IFS}", "npm${IFS}test",
    "npm$IFS'test'", "npm {test,--script-shell=/evil/x}", "npm test *", "npm test ~", "npm test $HOME", "npm t?st",
    "npm [t]est", "n\\pm test", "n''pm test", 'n""pm test', "'npm' test", '"npm" test', "$'npm' test", "npm te''st",
    "$'\\x6epm' test", "eval 'npm test'", "eval npm test", "exec npm test", "command npm test", "builtin npm test",
    "time npm test", "nohup npm test", "env npm test", "sudo npm test", "nice npm test", "xargs npm test",
    "timeout 9 npm test", "sh -c 'npm test'", "bash -c 'npm test'", ". npm test", "source npm test",
    "alias npm=rm; npm test", "npm() { rm -rf ~; }; npm test", "function npm { rm -rf ~; }\nnpm test",
    "trap 'rm -rf ~' EXIT; npm test", "PATH=/evil npm test", "LD_PRELOAD=/evil/x.so npm test",
    "NODE_OPTIONS=x npm test",
    "X=1 npm test", "export PATH=/evil; npm test", "set -- x; npm test", "cd /evil && npm test",
    "cd /evil; npm test",
    "pushd /evil; npm test", "hash -p /evil/x npm; npm test", "enable -f /evil/x.so npm; npm test",
    # The same to the eye.
    " npm test", "npm test ", "npm  test", "npm\ttest", "npm test\t", "\tnpm test", "npm\u00a0test",
    "npm\u2003test",
    "npm test\u200b", "\ufeffnpm test", "npm\u200b test", "npm test\u202e", "n\u0440m test", "npm te\u0455t",
    "NPM test", "Npm Test", "npm TEST", "npm test\x00", "npm\x00 test", "npm test\x1b[2K", "npm test\b\b\b\b",
    "npm test\u2028rm -rf ~", "npm test\v", "npm test\x85rm", "npm test #", "npm test # ; rm", "# npm test",
    "npm test\x7f", "npm tes\u0301t", "\uff4epm test", "npm\u3000test", "npm\u2044test", "npm test\u00ad",
    # Another place, other words.
    "./npm test", "/evil/npm test", "../npm test", "~/npm test", "npm test --script-shell=/evil/x", "npm run test",
    "npm test -- --watch", "npm tests", "npm tes", "npm", "test", "", "npm test" + "; true" * 60 + "; rm -rf ~",
    "npm test" * 2, "ls -la | head; rm -rf ~", "ls -la | head -c 9 > ~/.bashrc", "ls -la |head", "ls -la | head\n",
    "git status && git diff && git push", "git status && git diff --output=x", "git status & git diff",
    "git status &&git diff", "make test 2>&1; x", "make test 2>&1 | sh", "make test 2>1",
    "make test SHELL=/evil/x 2>&1",
    "git log", "cat README.md", "python -m pytest", "ls", "bash scripts/build.sh", "npm ci",
)  # fmt: skip

_WORDS = (
    # Shells and launchers in front.
    ("sh", "-c", "npm test"), ("/bin/sh", "-c", "npm test"), ("bash", "-c", "npm test"),
    ("bash", "-lc", "npm test"),
    ("env", "npm", "test"), ("env", "-S", "npm test"), ("sudo", "npm", "test"), ("doas", "npm", "test"),
    ("nohup", "npm", "test"), ("timeout", "9", "npm", "test"), ("nice", "npm", "test"), ("setsid", "npm", "test"),
    ("xargs", "npm", "test"), ("find", ".", "-exec", "npm", "test", ";"), ("busybox", "sh", "-c", "npm test"),
    ("stdbuf", "-o0", "npm", "test"), ("npx", "-c", "npm test"), ("git", "-c", "alias.status=!sh", "status"),
    ("git", "-c", "core.pager=sh", "log"), ("git", "-C", "/evil", "status"), ("git", "--exec-path=/evil", "status"),
    ("git", "--git-dir=/evil/x", "log"), ("git", "-p", "log"), ("git", "--paginate", "log"),
    ("git", "bisect", "run"),
    ("npm", "--prefix", "/evil", "test"), ("npm", "--script-shell=/evil/x", "test"), ("npm", "-C", "/evil", "test"),
    ("make", "test", "SHELL=/evil/x"), ("make", "-f", "/evil/x", "test"), ("make", "-C", "/evil", "test"),
    ("make",),
    ("make", "test", "--eval=x"), ("python", "-c", "import os"), ("python", "-m", "pytest", "-p", "evil"),
    ("python", "-m", "http.server"), ("bash", "scripts/build.sh", "x"), ("bash", "./scripts/build.sh"),
    ("bash", "-x", "scripts/build.sh"), ("bash",),
    # Options that run, load or write something.
    ("npm", "test", "--script-shell=/evil/x"), ("npm", "test", "--script-shell", "/evil/x"),
    ("npm", "test", "--node-options=--require=/evil/x"), ("npm", "test", "--prefix", "/evil"),
    ("npm", "test", "-C", "/"),
    ("npm", "test", "--userconfig=/evil/npmrc"), ("npm", "test", "--globalconfig", "x"),
    ("npm", "test", "--init-module=x"),
    ("npm", "run", "lint", "--script-shell=sh"), ("npm", "run", "build"),
    ("npm", "run", "--script-shell=x", "lint"),
    ("npm", "exec", "x"), ("npm", "install", "evil"), ("npm", "run"), ("npm", "ci", "--foo"),
    ("git", "log", "--output=/home/ada/.bashrc"), ("git", "log", "--outp", "x"), ("git", "log", "--ext-diff"),
    ("git", "log", "--textconv"), ("git", "log", "-O/evil/order"), ("git", "log", "--open-files-in-pager=sh"),
    ("git", "status", "--porcelain"), ("git", "push"), ("git", "config", "core.pager", "sh"),
    ("pytest", "-p", "evil"), ("pytest", "-pevil"), ("pytest", "-qp", "evil"), ("pytest", "-c", "/evil/x.ini"),
    ("pytest", "--rootdir=/evil"), ("pytest", "--override-ini=addopts=-pevil"), ("pytest", "-o", "addopts=-pevil"),
    ("pytest", "--confcutdir=/"), ("pytest", "--import-mode=x"), ("pytest", "--pyargs", "evil"),
    ("pytest", "--basetemp-dir=/"),
    ("go", "test", "-exec", "/evil/x"), ("go", "test", "-exec=/evil/x"), ("go", "test", "--exec=/evil/x"),
    ("go", "test", "-toolexec", "/evil/x"), ("go", "test", "-vettool=/evil/x"),
    ("go", "test", "-o", "/home/ada/.bashrc"),
    ("go", "test", "-ldflags=-extld=/evil/x"), ("go", "test", "-overlay", "x"), ("go", "test", "-modfile=x"),
    ("go", "run", "evil.go"), ("go", "generate"), ("cargo", "test", "--config", "x"),
    ("cargo", "test", "--config=x"),
    ("cargo", "test", "--manifest-path", "/evil/Cargo.toml"), ("cargo", "test", "-Zscript"), ("cargo", "run"),
    ("cargo", "test", "--target-dir=/"), ("cargo", "+evil", "test"), ("cargo", "--config", "x", "test"),
    # Files that are always asked about.
    ("cat", ".env"), ("cat", "/home/ada/.ssh/id_rsa"), ("cat", "../../ada/.ssh/id_rsa"),
    ("cat", "a", "b", ".git/config"),
    ("cat", "src/../.ENV.local"), ("grep", "-r", "x", ".ssh"), ("grep", "--file=.env", "x"),
    ("grep", "x", "/home/ada/.aws/credentials"),
    ("grep", "x", ".npmrc"), ("cat", ".github/workflows/ci.yml"), ("cat", "/home/ada/.config/gh/hosts.yml"),
    # Words that are nearly the same.
    ("npm test",), ("npm", "test "), ("npm", " test"), (" npm", "test"), ("npm", "Test"), ("NPM", "test"), ("npm",),
    ("npm\u200b", "test"), ("npm", "test\u200b"), ("n\u0440m", "test"), ("./npm", "test"), ("/evil/npm", "test"),
    ("/usr/bin/npm", "test"), ("../npm", "test"), ("npm", "", "test"), ("", "npm", "test"),
    ("npm", "test\nx"), ("test", "npm"),
    ("ls", "-la"), ("ls", "."), ("ls", ""), ("ls ",), ("LS",), ("ls\x00",), ("git status",),
    ("git", "status", ""), ("git",),
    ("gitt", "log"), ("git", "log\n"), ("git-log",), ("cat\u00a0",), ("pytest3",), ("pytest\u202e",),
    ("pyth\u043en", "-m", "pytest"),
)  # fmt: skip

_PLACES = (
    run("npm", "test", cwd="/evil"), run("npm", "test", cwd="/home/ada"), run("npm",
    "test", cwd="/home/ada/project2"),
    run("npm", "test", cwd="/home/ada/project/../other"), run("npm", "test", cwd="/home/ada/Project"),
    run("npm", "test", cwd="/home/ada/project/.git/hooks"), run("ls", cwd="/"), sh("npm test", cwd="/evil"),
    sh("npm test", cwd="/home/ada"), run("npm", "test", CI="1"), run("npm", "test", X="1"), run("npm",
    "ci", CI="2"),
    run("npm", "ci", CI="1", X="1"), run("npm", "ci", ci="1"), run("npm", "test", PATH="/evil"),
    run("npm", "test", LD_PRELOAD="/evil/x.so"), run("npm", "test", NODE_OPTIONS="--require=/evil/x"),
    run("git", "log", GIT_PAGER="sh"), run("git", "log", PAGER="sh"), run("git", "log", GIT_EXTERNAL_DIFF="sh"),
    run("git", "status", GIT_DIR="/evil/x"), run("npm", "test", npm_config_script_shell="/evil/x"),
    run("ls", BASH_ENV="/evil/x"), run("ls", ENV="/evil/x"), sh("npm test", CI="1"), sh("npm test", BASH_ENV="/x"),
    sh("npm test", **{"BASH_FUNC_npm%%": "() { rm -rf ~; }"}), run("pytest", PYTHONPATH="/evil"),
    run("pytest", PYTEST_ADDOPTS="-pevil"), run("go", "test", GOFLAGS="-exec=/evil/x"),
    run("cargo", "test", RUSTC_WRAPPER="/evil/x"), run("cargo", "test", CARGO_BUILD_RUSTC="/evil/x"),
    run("make", "test", MAKEFLAGS="--eval=x"), run("make", "test", SHELL="/evil/x"), run("ls", HOME="/evil"),
    Execute(argv=("npm", "test"), cwd=CWD, shell=True), Execute(argv=("/bin/sh", "-c", "npm test"), cwd="/"),
    Execute(argv=("npm", "test"), cwd=CWD, dangerous_env=("X",), env=(("X", "1"),)),
)  # fmt: skip

TRICKS: tuple[Execute, ...] = (
    *(sh(text) for text in _STRINGS if text != "npm test"),
    *(run(*words) for words in _WORDS),
    *_PLACES,
)

BENIGN: tuple[Execute, ...] = (
    *(run(*words) for words in (("ls",), ("git", "status"), ("make", "test"), ("python", "-m", "pytest"))),
    *(sh(text) for text in ("npm test", "ls -la | head", "git status && git diff", "make test 2>&1")),
    *(sh(text, cwd=f"{CWD}/packages/a") for text in ("npm test", "ls -la | head", "make test 2>&1")),
    run("bash", "scripts/build.sh"), run("npm", "ci"), run("npm", "ci", CI="1"), run("ls", cwd=f"{CWD}/src"),
    *(run("npm", "test", *words) for words in (
        (), ("--silent",), ("--", "--watch"), ("--", "-t", "adds"), ("src/a.test.ts",), ("--", "--coverage"),
        ("; rm -rf ~",), ("$(id)",), ("a b", "c"), ("--verbose",), ("--", "--runInBand"), ("-s",),
    )),
    *(run("npm", "run", "lint", *words) for words in ((), ("--", "--fix"), ("src",), ("--", "--max-warnings=0"))),
    *(run("git", "log", *words) for words in (
        (), ("--oneline",), ("-5",), ("-n", "5"), ("--graph", "--all"), ("main..HEAD",), ("--", "src/a.py"),
    ("-p",),
        ("--since=2024-01-01",), ("--stat",), ("--author=ada",), ("--format=%h %s",), ("-S", "needle"),
    ("--follow", "a"),
    )),
    *(run("cat", *words) for words in (
        ("README.md",), ("src/a.py", "src/b.py"), ("-n", "a"), ("a b.txt",), ("./x",), ("-",), ("src/環境.md",),
    )),
    *(run("grep", *words) for words in (
        ("-rn", "needle", "src"), ("-i", "x", "a"), ("-E", "a|b", "c"), ("-c", "x", "a"), ("-l", "x", "a", "b"),
        ("-e", "x", "a"), ("-o", "x", "a"), ("--color=never", "x", "a"), ("-A3", "x", "a"), ("-w", "x", "a"),
    )),
    *(run("pytest", *words) for words in (
        (), ("-x",), ("-q",), ("-k", "adds"), ("tests/test_a.py",), ("tests/test_a.py::test_b",), ("-vv",),
    ("--lf",),
        ("--tb=short",), ("-m", "slow"), ("-s",), ("--durations=5",),
    )),
    *(run("go", "test", *words) for words in (
        ("./...",), ("-v", "./..."), ("-run", "TestA"), ("-count=1",), ("-race",), ("-short",), ("-bench=.",),
    ("-cover",),
    )),
    *(run("cargo", "test", *words) for words in (
        (), ("--release",), ("adds",), ("--", "--nocapture"), ("--lib",), ("-p", "core"), ("--workspace",),
    ("--quiet",),
    )),
)  # fmt: skip

"""What `...` stands for at the end of a rule: arguments known to be harmless, of programs that are known."""

import os
from pathlib import Path

import pytest
from torture.errands import answer, hosting

from dragoman.host import Host
from dragoman.host.operations import Execute
from dragoman.host.permissions import Permissions, Rules, RulesError

pytestmark = pytest.mark.usefixtures("nothing_left")


def rules(directory: Path, *argvs: str) -> Rules:
    """Rules that allow each of these commands, written as their words."""
    tables = [f'[[allow]]\noperation = "terminal_execute"\nargv = {argv.split()!r}\n' for argv in argvs]
    (directory / "rules.toml").write_text("\n".join(tables).replace("'", '"'))
    return Rules.load(directory / "rules.toml")


# A rule, and commands that write, load or run something of the caller's choosing.
HARMFUL = {
    "pytest ...": """
        pytest --basetemp=/srv/data | pytest --basetemp x | pytest -p evil | pytest -xp evil
        pytest --junitxml=x | pytest --log-file=x | pytest --debug=x | pytest --cov-report=html:x
        pytest @options | pytest -W error::evil.E | pytest -k -- --basetemp=x | pytest -c evil.ini
        pytest -qc evil.ini | pytest --rootdir=x | pytest --pdbcls=a:b | pytest --pastebin=all
        pytest --cache-clear --basete=x | pytest -n2 --rsyncdir=x | pytest --pyargs evil
    """,
    "npm audit ...": "npm audit fix | npm audit fix --force | npm audit signatures | npm audit --fix",
    "npm test ...": """
        npm test -- --globalSetup=./evil.js | npm test -- --config=x | npm test -- -r evil | npm test -- -u evil
        npm test -- --reporter=./evil.js | npm test -- --setupFiles=x | npm test --prefix=/x
        npm test --script-shell=x | npm test -- --coverageDirectory=/x | npm test -- --outputFile=x
        npm test -- -f ./evil.js | npm test -- -o x
    """,
    "yarn test ...": "yarn test --globalSetup=x | yarn test --cwd /x | yarn test -r evil | yarn test --config x",
    "eslint ...": """
        eslint -f ./evil.js | eslint --format=./evil.js | eslint --rulesdir=x | eslint -c evil.js | eslint -o x
        eslint --resolve-plugins-relative-to=x | eslint --plugin evil | eslint --parser=x | eslint --fix
        eslint --cache-location=x | eslint --output-file x
    """,
    "jest ...": """
        jest --globalSetup=./evil.js | jest --globalSetup ./evil.js | jest --setupFilesAfterEnv=x | jest -c x
        jest --reporters=./evil.js | jest --testRunner=x | jest --transform={} | jest --outputFile=x
        jest --env=./evil.js | jest --coverageDirectory=/x | jest --cacheDirectory=/x | jest --rootDir=/x
        jest -ic x | jest --resolver=x
    """,
    "mocha ...": """
        mocha -r evil | mocha --require evil | mocha -bir evil | mocha --ui=./evil.js | mocha -u evil
        mocha -R evil | mocha --reporter=evil | mocha --config=x | mocha --loader=x | mocha --package=x
        mocha --file=/x
    """,
    "dotnet build ...": """
        dotnet build -p:PreBuildEvent=evil | dotnet build /p:PreBuildEvent=evil | dotnet build --property:X=y
        dotnet build -t:Evil | dotnet build @evil.rsp | dotnet build -o /x | dotnet build --output /x
        dotnet build /t:X | dotnet build -logger:evil.dll | dotnet build -cp:X=y
        dotnet build --artifacts-path /x
    """,
    "uniq ...": "uniq a OUT | uniq -c a OUT | uniq -- a OUT",
    "uniq a ...": "uniq a OUT",
    "cargo clippy ...": "cargo clippy -- -Clinker=evil | cargo clippy --fix | cargo clippy -- -C linker=evil",
    "cargo test ...": """
        cargo test --target evil.json | cargo test -- --logfile=x | cargo test --config=x | cargo test -Zx
        cargo test --target-dir=/x | cargo test --manifest-path=/x | cargo test -- -Zunstable-options
    """,
    "cargo build ...": """
        cargo build --artifact-dir=/x | cargo build --out-dir=/x | cargo build --timings --config=x
    """,
    "go test ...": """
        go test -exec=evil | go test --exec=evil | go test -coverprofile=/x | go test -o x
        go test -args -test.x=y | go test -test.cpuprofile=/x | go test -C /x | go test -outputdir=/x
        go test -toolexec=x | go test -ldflags=x
    """,
    "rg ...": "rg --pre evil x | rg --pre=evil x | rg --hostname-bin=evil x | rg -z x | rg --search-zip x",
    "git log ...": """
        git log --output=x | git log -O/x | git log --ext-diff | git log --textconv | git log --show-signature
        git log --no-index a b | git log --outpu=x
    """,
    "git add ...": "git add -e | git add -i | git add -p | git add --edit | git add --pathspec-from-file=x",
    "ruff check ...": "ruff check --fix | ruff check --config=x | ruff check -o x | ruff check --output-file=x",
    "mypy ...": """
        mypy --python-executable=evil | mypy --install-types | mypy --html-report=x | mypy @x
        mypy --cache-dir=/x
    """,
    "prettier ...": "prettier --write x | prettier -w x | prettier --plugin=evil x | prettier --config=x y",
    "tsc ...": """
        tsc --outDir /x | tsc -outDir /x | tsc -p /x | tsc --project /x | tsc --build | tsc @x | tsc --outFile=x
    """,
    "diff ...": "diff -l a b | diff --paginate a b",
    "date ...": "date -s x | date 010100002000 | date --set=x",
    "hostname ...": "hostname evil | hostname -F x",
    "file ...": "file -C -m x | file -m x y | file -z x",
    "tree ...": "tree -o x | tree -R x",
    "uv version ...": "uv version 9.9.9 | uv version --bump=major",
    "vitest ...": """
        vitest --reporter=./evil.js | vitest --config=x | vitest --globalSetup=x | vitest --ui | vitest -r x
    """,
    "pylint ...": "pylint --init-hook=evil | pylint --load-plugins=evil | pylint --rcfile=x | pylint --output=x",
    "jq ...": "jq -f x | jq -L x . | jq --from-file x",
}

HARMLESS = {
    "pytest ...": """
        pytest | pytest -xq tests | pytest -k adds --maxfail=2 | pytest tests/a.py::b[1] -vv | pytest -n4 --lf
    """,
    "npm audit ...": "npm audit | npm audit --json | npm audit --audit-level=high",
    "npm run lint ...": "npm run lint | npm run lint -- --fix | npm run lint src",
    "eslint ...": "eslint . | eslint --max-warnings=0 src | eslint --quiet",
    "jest ...": "jest | jest -i --coverage src | jest -t adds | jest --ci --runInBand",
    "mocha ...": "mocha | mocha -g adds test | mocha --timeout=5000 --bail",
    "dotnet test ...": "dotnet test | dotnet test -c Release --no-build | dotnet test --filter=Name~x",
    "uniq ...": "uniq | uniq -c a | uniq -f1 a",
    "cargo clippy ...": "cargo clippy --all-targets -- -D warnings | cargo clippy -p core",
    "cargo build ...": "cargo build --release | cargo build -p core --features=a,b",
    "cargo fmt ...": "cargo fmt --check | cargo fmt -- --check",
    "go build ...": "go build ./... | go build -race -tags=x ./cmd/a",
    "git diff ...": "git diff | git diff --stat main..HEAD -- src | git diff --cached -U5 | git diff --name-only",
    "rg ...": "rg needle src | rg -n --glob=*.py x | rg -tpy -C3 /api/v1",
    "ls ...": "ls -la | ls -lahR src | ls --color=never",
    "head ...": "head -20 a | head -n 5 a b | head -c100 a",
    "date ...": "date | date -u | date +%s",
    "ruff check ...": "ruff check . | ruff check --select=E,F src",
    "uv sync ...": "uv sync --frozen | uv sync --extra dev",
    "/usr/bin/grep ...": "/usr/bin/grep -rn @Component src",
}


def commands(text: str) -> list[list[str]]:
    return [command.split() for line in text.strip().splitlines() for command in line.split("|") if command.strip()]


async def allowed(directory: Path, rule: str, argv: list[str]) -> bool:
    permissions = Permissions("ask", rules(directory, rule))
    operation = Execute(argv=tuple(argv), cwd=str(directory))
    return (await permissions.decide("s", operation, workspace=directory)).allowed


@pytest.mark.parametrize("rule", HARMFUL)
async def test_an_open_rule_does_not_mean_options_that_write_load_or_run(tmp_path: Path, rule: str) -> None:
    found = commands(HARMFUL[rule])
    assert [" ".join(argv) for argv in found if await allowed(tmp_path, rule, argv)] == []


@pytest.mark.parametrize("rule", HARMLESS)
async def test_an_open_rule_means_what_is_harmless(tmp_path: Path, rule: str) -> None:
    found = commands(HARMLESS[rule])
    assert [" ".join(argv) for argv in found if not await allowed(tmp_path, rule, argv)] == []


UNKNOWN = """
    mytool elixir iex dart mono sbt tig busybox toybox sudoedit rustc swiftc nim crystal erl escript zig ghc
    ocaml lein clj mix rebar3 terraform tofu pulumi ansible helm aws gcloud gh hub glab brew apt dnf pacman
    snap flatpak systemctl journalctl ffmpeg convert magick pandoc gs ps2pdf qemu-system-x86_64 wine steam
    code subl mutt lynx w3m sort tee xxd sponge patch install cp mv rm ln truncate shred mkfifo chmod chown
    gpg openssl jshell mvnw gradlew ./script scripts/test.sh coverage tox nox hatch invoke fab alembic
    django-admin flask uvicorn gunicorn celery jupyter ipython streamlit playwright cypress webpack vite
    rollup esbuild parcel turbo nx lerna gulp grunt
"""


def test_a_rule_for_a_program_nobody_knows_says_every_word(tmp_path: Path) -> None:
    for name in UNKNOWN.split():
        for words in (name, f"{name} run", f"{name} --version"):
            with pytest.raises(
                RulesError, match=r"rules\.toml:1 \(allow rule 1\): .* so it cannot be allowed with"
            ):
                rules(tmp_path, f"{words} ...")
            assert rules(tmp_path, words).rules


def test_a_command_of_a_known_program_that_is_not_known_says_which_are(tmp_path: Path) -> None:
    with pytest.raises(RulesError, match=r"npm may run.*after one of: audit, list, ls, outdated, restart, run"):
        rules(tmp_path, "npm install ...")
    for words in ("git log", "npm run", "npm run -s", "go", "cargo +nightly test", "pnpm dlx x", "git -C x log"):
        with pytest.raises(RulesError, match="further arguments; write them all out"):
            rules(tmp_path, words.replace("git log", "git") + " ...")


async def test_further_arguments_stay_in_the_sessions_directories(tmp_path: Path) -> None:
    workspace, outside, lent = tmp_path / "workspace", tmp_path / "outside", tmp_path / "lent"
    for directory in (workspace, outside, lent):
        directory.mkdir()
        (directory / "a.txt").write_text("x")
    (workspace / "link").symlink_to(outside)
    permissions = Permissions("ask", rules(tmp_path, "cat ...", "pytest ...", "grep ..."))

    async def allows(*argv: str) -> bool:
        operation = Execute(argv=argv, cwd=str(workspace))
        return (await permissions.decide("s", operation, workspace=workspace, directories=[lent])).allowed

    for path in ("a.txt", f"{workspace}/a.txt", f"{lent}/a.txt", "../lent/a.txt", "missing", "./link/../a.txt"):
        assert await allows("cat", path), path
    for path in (f"{outside}/a.txt", "../outside/a.txt", "link/a.txt", "link", "/etc/hostname", "..", "/"):
        assert not await allows("cat", "a.txt", path), path
    assert not await allows("pytest", str(outside))
    assert not await allows("pytest", f"--ignore={outside}")
    assert await allows("grep", "-rn", "/api/v1", ".")
    assert not await allows("cat", *["a.txt"] * 1001)


async def test_a_test_run_that_would_empty_a_directory_elsewhere_is_not_started(
    tmp_path: Path, project: Path
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "precious").write_text("x")
    host = Host(rules=rules(tmp_path, "pytest ..."))
    async with hosting(host, project) as session:
        for words in (
            [f"--basetemp={data}"],
            ["--basetemp", str(data)],
            ["-q", f"--basetemp={os.path.relpath(data)}"],
        ):
            created = await answer(session, "terminal/create", command="pytest", args=words)
            assert created == (-32602, "not_permitted")
    assert (data / "precious").read_text() == "x"

"""Rules: how they are written, what they are about, and which of them wins."""

import grp
import os
import pwd
import re
import time
from pathlib import Path

import pytest
from torture.shell_tricks import BENIGN, CWD, RULES

from dragoman.host.addresses import origin
from dragoman.host.operations import Execute, FileDelete, FileRead, FileWrite, McpTool, NetworkAccess
from dragoman.host.permissions import Rules, RulesError, user_file, workspace_file
from dragoman.host.permissions.rules.matching import Circumstances
from dragoman.host.permissions.rules.patterns import name_fits, path_fits
from dragoman.host.permissions.rules.programs import program

ROOT = "/home/ada/project"
HERE = Circumstances(ROOT, "claude", time.time())


@pytest.fixture
def load(tmp_path):
    def load(text="", workspace=None, trusted=lambda path, digest: False):
        (tmp_path / "user.toml").write_text(text)
        if workspace is not None:
            (tmp_path / "workspace.toml").write_text(workspace)
        return Rules.load(tmp_path / "user.toml", tmp_path / "workspace.toml", trusted)

    return load


def effect(rules, operation, place=HERE):
    verdict = rules.judge(operation, place)
    return verdict and verdict.effect


def run(*argv, cwd=ROOT, shell=False, **env):
    return Execute(argv=argv, cwd=cwd, env=tuple(env.items()), shell=shell)


# Which rule wins


@pytest.mark.parametrize("order", [("allow", "ask", "deny"), ("deny", "ask", "allow"), ("ask", "deny", "allow")])
def test_deny_beats_ask_beats_allow_in_whatever_order(load, order):
    tables = {name: f'[[{name}]]\noperation = "file_read"\npath = "**"\n' for name in order}
    read = FileRead(path=f"{ROOT}/a")
    for count in (1, 2, 3):
        strongest = min(order[:count], key=("deny", "ask", "allow").index)
        assert effect(load("\n".join(tables[name] for name in order[:count])), read) == strongest


def test_a_rule_that_decided_can_be_found(load, tmp_path):
    rules = load(
        '\n# mine\n[[deny]]\noperation = "file_read"\nreason = "no"\n\n[[deny]]\noperation = "file_write"\n'
    )
    verdict = rules.judge(FileWrite(path="/x", digest="d"), HERE)
    assert verdict.rule.where == f"{tmp_path}/user.toml:7 (deny rule 2)"
    assert rules.judge(FileRead(path="/x"), HERE).why == "no"


def test_no_file_means_no_rules(tmp_path):
    assert Rules.load(tmp_path / "none", tmp_path / "neither").rules == ()


# Workspaces


def test_a_workspace_can_only_make_things_stricter_until_it_is_trusted(load, tmp_path):
    theirs = '[[allow]]\noperation = "file_read"\npath = "**"\n[[deny]]\noperation = "file_write"\n'
    read, write = FileRead(path=f"{ROOT}/a"), FileWrite(path=f"{ROOT}/a", digest="d")
    rules = load("", theirs)
    assert (effect(rules, read), effect(rules, write)) == (None, "deny")
    assert [rule.effect for rule in rules.ignored] == ["allow"]
    path, digest = rules.untrusted
    assert path == os.path.realpath(tmp_path / "workspace.toml")
    trusted = load("", theirs, lambda *known: known == (path, digest))
    assert (effect(trusted, read), effect(trusted, write)) == ("allow", "deny")
    assert trusted.untrusted is None
    changed = load("", theirs + "\n", lambda *known: known == (path, digest))
    assert effect(changed, read) is None


def test_a_workspace_cannot_weaken_the_user(load):
    mine = '[[deny]]\noperation = "file_read"\n'
    theirs = '[[allow]]\noperation = "file_read"\npath = "**"\n'
    assert effect(load(mine, theirs, lambda *_: True), FileRead(path=f"{ROOT}/a")) == "deny"


def test_a_workspace_file_that_is_no_plain_file_is_refused(tmp_path):
    (tmp_path / "elsewhere").write_text("")
    (tmp_path / "link.toml").symlink_to(tmp_path / "elsewhere")
    os.mkfifo(tmp_path / "pipe.toml")
    for name in ("link.toml", "pipe.toml"):
        with pytest.raises(RulesError, match=name):
            Rules.load(None, tmp_path / name)


@pytest.mark.parametrize("mode", [0o666, 0o602, 0o646])
def test_a_file_others_can_write_to_allows_nothing(tmp_path, mode):
    (tmp_path / "mine.toml").write_text("")
    (tmp_path / "mine.toml").chmod(mode)
    with pytest.raises(RulesError, match="chmod go-w"):
        Rules.load(tmp_path / "mine.toml")


def test_a_group_can_write_to_the_rules_only_when_it_is_the_users_own(tmp_path):
    (tmp_path / "mine.toml").write_text("")
    (tmp_path / "mine.toml").chmod(0o664)
    status = (tmp_path / "mine.toml").stat()
    if grp.getgrgid(status.st_gid).gr_name == pwd.getpwuid(status.st_uid).pw_name:
        assert Rules.load(tmp_path / "mine.toml").rules == ()
    else:
        with pytest.raises(RulesError, match="chmod go-w"):
            Rules.load(tmp_path / "mine.toml")
    if os.geteuid() == 0:
        os.chown(tmp_path / "mine.toml", -1, 1)
        with pytest.raises(RulesError, match="chmod go-w"):
            Rules.load(tmp_path / "mine.toml")


def test_a_huge_file_is_refused(tmp_path):
    (tmp_path / "mine.toml").write_text("#" * 300_000)
    with pytest.raises(RulesError, match="256 KiB"):
        Rules.load(tmp_path / "mine.toml")
    (tmp_path / "mine.toml").write_text('[[deny]]\noperation = "*"\n' * 1001)
    with pytest.raises(RulesError, match="1000 rules"):
        Rules.load(tmp_path / "mine.toml")


def test_files_are_where_xdg_says(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert user_file() == tmp_path / "dragoman" / "permissions.toml"
    monkeypatch.setenv("XDG_CONFIG_HOME", "relative")
    assert user_file().parts[-3:] == (".config", "dragoman", "permissions.toml")
    assert workspace_file("/a") == Path("/a/.dragoman/permissions.toml")


# Paths


@pytest.mark.parametrize(
    ("glob", "path", "fits"),
    [
        ("a", "a", True), ("a", "b", False), ("a", "a/b", False), ("*", "a", True), ("*", "a/b", False),
        ("**", "a/b/c", True),
        ("**", "", True), ("src/**", "src", True), ("src/**", "src/a/b", True), ("src/**", "srcs/a", False),
        ("**/a", "a", True),
        ("**/a", "b/c/a", True), ("**/a", "b/ca", False), ("a/**/b", "a/b", True),
        ("a/**/b", "a/x/y/b", True), ("a?", "ab", True),
        ("a?", "a", False), ("*.py", "a.py", True), ("*.py", ".py", True), ("*.py", "a.pyc", False),
        ("a*b*c", "aXbYc", True),
        ("[id].ts", "[id].ts", True), ("[id].ts", "i.ts", False), ("**/**/a", "a", True),
        ("/a/*", "/a/b", True), ("/a", "/a/", True),
    ],
)  # fmt: skip
def test_a_path_fits_part_by_part(glob, path, fits):
    assert path_fits(glob, path) is fits


def test_no_pattern_takes_long():
    began = time.process_time()
    assert not path_fits("/".join(["**", "*a*a*a*a*"] * 40), "/".join(["a" * 200] * 300) + "/b")
    assert not name_fits("*a" * 200 + "b", "a" * 4000)
    assert time.process_time() - began < 3


def test_a_relative_path_is_one_in_the_workspace(load):
    rules = load('[[allow]]\noperation = "file_write"\npath = ["src/**", "*.md"]\n')
    for path in ("src/a.py", "src/b/c.py", "README.md"):
        assert effect(rules, FileWrite(path=f"{ROOT}/{path}", digest="d")) == "allow"
    for path in (f"{ROOT}/docs/a.md", f"{ROOT}/SRC/a.py", "/src/a.py", f"{ROOT}2/src/a.py", "/home/ada/README.md"):
        assert effect(rules, FileWrite(path=path, digest="d")) is None
    assert effect(rules, FileRead(path=f"{ROOT}/src/a.py")) is None
    assert effect(rules, FileWrite(path=f"{ROOT}/src/a.py", digest="d"), Circumstances(None)) is None


def test_an_absolute_path_is_that_path(load, monkeypatch):
    monkeypatch.setenv("HOME", "/home/ada")
    rules = load('[[allow]]\noperation = "file_read"\npath = ["/etc/hosts", "~/notes/**"]\n')
    assert effect(rules, FileRead(path="/etc/hosts"), Circumstances(None)) == "allow"
    assert effect(rules, FileRead(path="/home/ada/notes/a"), Circumstances(None)) == "allow"
    assert effect(rules, FileRead(path="/etc/hosts2")) is None


def test_a_ban_is_read_generously(load):
    rules = load('[[deny]]\noperation = "file_delete"\npath = ["**/*.lock", "secrets", "Grüße"]\n')
    for path in (
        f"{ROOT}/a.lock", f"{ROOT}/x/A.LOCK", "/elsewhere/b.Lock", f"{ROOT}/secrets", f"{ROOT}/Secrets/deep/x",
        f"{ROOT}/gru\u0308sse", f"{ROOT}/a.lock/inner",
    ):  # fmt: skip
        assert effect(rules, FileDelete(path=path)) == "deny", path
    assert effect(rules, FileDelete(path=f"{ROOT}/a.locks")) is None


# Commands


def test_what_the_rules_are_about_is_allowed(load):
    rules = load(RULES)
    assert len(set(BENIGN)) >= 80
    place = Circumstances(CWD, "", time.time())
    assert [command for command in BENIGN if effect(rules, command, place) != "allow"] == []


def test_words_are_exact_unless_the_rule_is_left_open(load):
    rules = load(
        '[[allow]]\noperation = "terminal_execute"\nargv = ["npm", "test"]\n'
        '[[allow]]\noperation = "terminal_execute"\nargv = ["pytest", "..."]\n'
    )
    assert effect(rules, run("npm", "test")) == "allow"
    assert effect(rules, run("npm", "test", "x")) is None
    assert effect(rules, run("pytest")) == "allow"
    assert effect(rules, run("pytest", "-x", "a")) == "allow"


def test_a_shell_command_is_compared_as_a_whole(load):
    rules = load('[[allow]]\noperation = "terminal_execute"\nshell = "a && b"\n')
    assert effect(rules, run("/bin/sh", "-c", "a && b", shell=True)) == "allow"
    for other in ("a && b ", "a  && b", "a && b; c", "a"):
        assert effect(rules, run("/bin/sh", "-c", other, shell=True)) is None
    assert effect(rules, run("/bin/sh", "-c", "a && b")) is None


def test_an_allowed_command_may_set_only_what_its_rule_says(load):
    rules = load('[[allow]]\noperation = "terminal_execute"\nargv = ["a"]\nenv = { CI = "1", LANG = "C" }\n')
    assert effect(rules, run("a")) == "allow"
    assert effect(rules, run("a", CI="1", LANG="C")) == "allow"
    assert effect(rules, run("a", CI="2")) is None
    assert effect(rules, run("a", CI="1", X="1")) is None


def test_an_allowed_command_runs_in_the_workspace_or_where_its_rule_says(load):
    rules = load('[[allow]]\noperation = "terminal_execute"\nargv = ["a"]\n')
    assert effect(rules, run("a", cwd=f"{ROOT}/deep")) == "allow"
    assert effect(rules, run("a", cwd="/home/ada")) is None
    assert effect(rules, run("a"), Circumstances(None)) is None
    only = load('[[allow]]\noperation = "terminal_execute"\nargv = ["a"]\ncwd = "."\n')
    assert effect(only, run("a")) == "allow"
    assert effect(only, run("a", cwd=f"{ROOT}/deep")) is None
    below = load('[[allow]]\noperation = "terminal_execute"\nargv = ["a"]\ncwd = "packages/*"\n')
    assert effect(below, run("a", cwd=f"{ROOT}/packages/x")) == "allow"
    assert effect(below, run("a")) is None


def test_a_ban_on_a_program_finds_it_wherever_it_lies(load):
    rules = load('[[deny]]\noperation = "terminal_execute"\nargv = ["rm", "..."]\n')
    for argv in (("rm", "-rf", "x"), ("/bin/rm", "x"), ("./RM", "x"), ("rm",)):
        assert effect(rules, run(*argv, X="1", cwd="/")) == "deny"
    assert effect(rules, run("ls", "rm")) is None


def test_a_ban_that_a_shell_or_a_launcher_may_hide_is_asked_about(load):
    rules = load('[[deny]]\noperation = "terminal_execute"\nargv = ["rm", "..."]\n')
    assert effect(rules, run("/bin/sh", "-c", "cd x; rm -rf y", shell=True)) == "ask"
    for argv in (
        ("env", "rm", "x"),
        ("bash", "-c", "/bin/rm x"),
        ("xargs", "rm"),
        ("find", ".", "-exec", "rm", "{}"),
    ):
        assert effect(rules, run(*argv)) == "ask", argv
    assert effect(rules, run("/bin/sh", "-c", "npm run farm", shell=True)) is None


LAUNCHERS = [
    ["sh"], ["bash"], ["/bin/bash"], ["bash-5.2"], ["zsh", "-c"], ["env"], ["env", "X=1"], ["xargs"],
    ["find", "."], ["sudo"],
    ["nohup"], ["timeout", "5"], ["nice"], ["git"], ["git", "-c"], ["git", "-C", "x"], ["git", "grep"],
    ["git", "fetch"],
    ["git", "rebase"], ["npx"], ["npx", "eslint"], ["uvx"], ["pnpm", "dlx"], ["pnpm", "dlx", "x"], ["pnpm"],
    ["npm"], ["npm", "run"],
    ["npm", "exec"], ["npm", "run", "-s"], ["yarn"], ["yarn", "dlx"], ["bun", "x"], ["uv", "run"], ["python"],
    ["python3.11"],
    ["python", "-c"], ["python3", "-m", "pytest"], ["node", "-e"], ["node"], ["perl", "-e"], ["ruby"],
    ["awk"], ["gawk"], ["sed"],
    ["sed", "-n"], ["tar"], ["tar", "xf"], ["ssh"], ["ssh", "-o"], ["rsync"], ["rsync", "-e"], ["make"],
    ["make", "test"],
    ["docker"], ["docker", "run"], ["podman", "exec"], ["kubectl"], ["cargo"], ["cargo", "run"],
    ["go", "run"], ["go"], ["vim"],
    ["less"], ["man"], ["gdb"], ["strace"], ["busybox"], ["watch"], ["parallel"], ["curl"], ["gcc"],
    ["bundle", "exec"], ["java"],
    ["/lib64/ld-linux-x86-64.so.2"], ["C:\\Windows\\cmd.exe"], ["deno", "run"], ["php"], ["sort"], ["split"],
    ["nix-shell"],
]  # fmt: skip


@pytest.mark.parametrize("words", LAUNCHERS, ids=" ".join)
def test_a_launcher_cannot_be_left_open(load, words):
    table = f"[[allow]]\noperation = 'terminal_execute'\nargv = {[*words, '...']!r}\n"
    with pytest.raises(RulesError, match=r"user\.toml:1 \(allow rule 1\).*further arguments; write them all out"):
        load(table.replace("\\\\", "/"))
    load(table.replace(", '...'", "").replace("\\\\", "/"))  # every word written out is fine
    load(table.replace("allow", "deny").replace("\\\\", "/"))


def test_a_program_is_known_by_its_name_alone():
    names = {"/usr/bin/python3.11": "python", "Bash": "bash", "perl5.36": "perl", "cmd.exe": "cmd", "7z": "7z"}
    assert {word: program(word) for word in names} == names


# The network and tools


def test_a_host_is_compared_with_its_scheme_and_port(load):
    rules = load(
        '[[allow]]\noperation = "network_access"\nhost = ["example.com", "*.sub.org", "http://localhost:80"]\n'
    )
    for url in ("https://example.com/x", "https://EXAMPLE.com:443", "https://a.b.sub.org/", "http://localhost/"):
        assert effect(rules, NetworkAccess(url=url)) == "allow", url
    for url in (
        "http://example.com/", "https://example.com:444/", "https://example.com.evil/", "https://evilexample.com/",
        "https://sub.org/", "https://localhost/", "http://localhost:81/", "wss://example.com/", "https://a.example.com",
        "https://example.com@evil.com/", "https://example.com\\@evil.com", "https://example.com\x00.evil.com",
        "https:example.com", "//example.com", "example.com", "https://ex\u0430mple.com", "https://example.com%2eevil.com",
    ):  # fmt: skip
        assert effect(rules, NetworkAccess(url=url)) is None, url


def test_a_ban_on_a_host_holds_for_every_scheme_and_port(load):
    rules = load('[[deny]]\noperation = "network_access"\nhost = ["evil.com", "*.evil.com"]\n')
    for url in ("http://evil.com", "wss://x.evil.com:99/", "https://EVIL.com./"):
        assert effect(rules, NetworkAccess(url=url)) == "deny", url
    for url in ("https://a@evil.com", "http://evil.com\\.x", "https://xn--\u0435vil.com", "http://0x7f.1/"):
        assert effect(rules, NetworkAccess(url=url)) == "ask", url
    assert effect(rules, NetworkAccess(url="https://good.com")) is None


def test_an_address_has_one_reading_or_none():
    assert origin("https://example.com./x").host == "example.com"
    assert origin("http://[::1]:8080/").port == 8080
    for url in ("http://127.1/", "http://[::ffff:1.2.3.4%0]/", "http://a..b/", "http:///x", "http://a:b/", "x", ""):
        assert origin(url) is None, url


def test_a_tool_is_known_by_its_server_and_its_name(load):
    rules = load(
        '[[allow]]\noperation = "mcp_tool"\nserver = "github"\ntool = ["search", "get_*"]\n'
        '[[deny]]\noperation = "mcp_tool"\ntool = "delete_*"\n'
    )
    assert effect(rules, McpTool(server="github", tool="get_issue", arguments={"a": 1})) == "allow"
    assert effect(rules, McpTool(server="github", tool="search_all")) is None
    assert effect(rules, McpTool(server="evil", tool="search")) is None
    assert effect(rules, McpTool(server="evil", tool="delete_repo")) == "deny"


# When and for whom


def test_a_rule_can_be_for_one_agent_and_for_a_time(load):
    rules = load(
        '[[allow]]\noperation = "file_read"\npath = "**"\nagent = "claude"\nexpires = 2030-01-31\n'
        '[[deny]]\noperation = "file_write"\nexpires = 2030-01-31T12:00:00Z\n'
    )
    read, write = FileRead(path=f"{ROOT}/a"), FileWrite(path=f"{ROOT}/a", digest="d")
    in_2029, in_2031 = 1861920000.0, 1924992000.0
    assert effect(rules, read, Circumstances(ROOT, "claude", in_2029)) == "allow"
    assert effect(rules, read, Circumstances(ROOT, "codex", in_2029)) is None
    assert effect(rules, read, Circumstances(ROOT, "claude", in_2031)) is None
    assert effect(rules, write, Circumstances(ROOT, "", in_2029)) == "deny"
    assert effect(rules, write, Circumstances(ROOT, "", in_2031)) is None


@pytest.mark.parametrize("kind", ["deny", "allow"])
def test_a_rule_can_end_with_the_calendar_or_have_ended_before_it(load, kind):
    for expires in ("9999-12-31", "9999-12-31T23:59:59", "9999-12-31T23:59:59-12:00"):
        rules = load(f'[[{kind}]]\noperation = "file_read"\npath = "**"\nexpires = {expires}\n')
        assert effect(rules, FileRead(path=f"{ROOT}/a")) == kind
    for expires in ("0001-01-01", "0001-01-01T00:00:00", "0001-01-01T00:00:00+12:00"):
        rules = load(f'[[{kind}]]\noperation = "file_read"\npath = "**"\nexpires = {expires}\n')
        assert effect(rules, FileRead(path=f"{ROOT}/a")) is None


def test_a_ban_can_be_on_everything(load):
    rules = load('[[ask]]\noperation = "*"\n')
    for operation in (FileRead(path="/a"), run("a"), NetworkAccess(url="x"), McpTool(server="a", tool="b")):
        assert effect(rules, operation) == "ask"


# Mistakes


EXECUTE = '[[allow]]\noperation = "terminal_execute"\n'
READ = '[[allow]]\noperation = "file_read"\n'


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[[allow]\n", r"user\.toml: this is not TOML.*line 1"),
        ("\xff", "not TOML|unknown key"),
        ("[[alow]]\n", r'unknown key "alow"; did you mean "allow"\?'),
        ("[allow]\noperation = 'file_read'\n", "two brackets"),
        ("allow = 3\n", "two brackets"),
        ("[[allow]]\npath = 'x'\n", r":1 \(allow rule 1\): which operation\? write operation = "),
        ("[[allow]]\noperation = 'file_raed'\n", 'did you mean "file_read"'),
        ("[[allow]]\noperation = 7\n", '"operation" is a string'),
        ("[[allow]]\noperation = '*'\n", 'unknown operation "\\*"'),
        (READ, r'which files\? write path = "src/\*\*"'),
        (READ + "paths = 'x'\n", r'unknown key "paths"; did you mean "path"\?.*has: path, operation, expires'),
        (READ + "argv = ['x']\n", 'unknown key "argv"'),
        (READ + "path = []\n", '"path" is a string or a list of strings'),
        (READ + "path = ''\n", '"path" is a string'),
        (READ + "path = 'src/'\n", r'"src/\*\*"'),
        (READ + "path = 'a//b'\n", "empty part"),
        (READ + "path = '../x'\n", r"without \. and \.\."),
        (READ + "path = './x'\n", r"without \. and \.\."),
        (READ + "path = 'a\\b'\n", "separated by /"),
        (READ + "path = 'x'\nexpires = '2030-01-01'\n", "without quotes"),
        (READ + "path = 'x'\nagent = 3\n", '"agent" is a string'),
        (READ + "path = 'x'\nreason = ['a']\n", '"reason" is a string'),
        (EXECUTE, r'which command\? write argv = \["npm", "test"\]'),
        (EXECUTE + "argv = 'npm test'\n", r'"argv" is a list of strings; write argv = \["npm", "test"\]'),
        (EXECUTE + "argv = []\n", '"argv" is a list'),
        (EXECUTE + "argv = ['...']\n", "stands at the end, after the program"),
        (EXECUTE + "argv = ['a', '...', 'b']\n", "stands at the end"),
        (EXECUTE + "argv = ['a', '*']\n", "no wildcard in argv"),
        (EXECUTE + "argv = ['a']\nshell = 'b'\n", "write two rules"),
        (EXECUTE + "argv = ['a']\nenv = ['X']\n", 'write env = { CI = "1" }'),
        ("[[deny]]\noperation = 'terminal_execute'\nenv = { X = '1' }\n", "env belongs to allow rules"),
        ("[[allow]]\noperation = 'network_access'\n", "which host"),
        ("[[allow]]\noperation = 'network_access'\nhost = 'https://a.com/path'\n", "is no host"),
        ("[[allow]]\noperation = 'network_access'\nhost = '*'\n", "is no host"),
        ("[[allow]]\noperation = 'network_access'\nhost = 'a b'\n", "is no host"),
        ("[[allow]]\noperation = 'mcp_tool'\ntool = 'x'\n", "whose tool"),
        ("[[deny]]\noperation = ['file_read', 'mcp_tool']\npath = 'x'\n", 'unknown key "path"'),
        ("a = " + "[" * 20_000, "not TOML"),
    ],
)  # fmt: skip
def test_a_mistake_is_named_with_its_place_and_what_to_write(load, text, says):
    with pytest.raises(RulesError, match=says) as refused:
        load(text)
    assert "user.toml" in str(refused.value)


def test_a_mistake_in_the_third_rule_names_the_third_rule(load):
    fine = '[[deny]]\noperation = "file_read"\n\n'
    with pytest.raises(RulesError, match=r"user\.toml:7 \(deny rule 3\)"):
        load(fine * 2 + '[[deny]]\noperation = "file_reed"\n')


def test_the_rules_of_the_documentation_are_rules(load):
    page = (Path(__file__).parents[2] / "docs" / "guide" / "permissions.md").read_text()
    (text,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    assert len(load(text).rules) == 6

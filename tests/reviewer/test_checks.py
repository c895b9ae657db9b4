"""Our own checks, one by one: what they find, and what they leave alone."""

from itertools import islice

import pytest

from dragoman.reviewer.analysers import topics
from dragoman.reviewer.checks import data, grammars, leftovers, python, secrets, shell, text, yaml
from dragoman.reviewer.findings import Check, Source

Lines = dict[int, str]


def found(check: Check, path: str, content: str) -> Lines:
    return {finding.line: finding.code for finding in check(Source(path, content))}


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ('{"a": 1}', {}),
        ("", {}),
        ('{"a": [1, 2,],\n}', {1: "json-trailing-comma"}),
        ('{"a": "x,}"}', {}),
        ("{'a': 1}", {1: "json-syntax"}),
        ('{"a": 1\n "b": 2}', {2: "json-syntax"}),
        ('{"a":\n NaN}', {2: "json-syntax"}),
        ("[" * 100_000, {1: "json-syntax"}),
        ('\ufeff{"a": 1}', {1: "byte-order-mark"}),
    ],
)
def test_json_is_read_as_json(content: str, expected: Lines) -> None:
    assert found(data.json_syntax, "a.json", content) == expected


def test_json_that_may_have_comments_is_left_alone() -> None:
    for name in ("tsconfig.json", "x/tsconfig.build.json", ".vscode/settings.json", ".eslintrc.json"):
        assert found(data.json_syntax, name, "// hello\n{}") == {}


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ('{"a": 1, "b": {"a": 2}, "c": [{"a": 1}, {"a": 2}]}', {}),
        ('{"a": {"x": 1,\n "x": 2}}', {2: "json-duplicate-key"}),
        ('{"a": "a", "b": "a"}', {}),
    ],
)
def test_a_key_is_given_once_in_an_object(content: str, expected: Lines) -> None:
    assert found(data.json_duplicates, "a.json", content) == expected


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("a = 1\n[b]\nc = 2\n", {}),
        ("a = \n", {1: "toml-syntax"}),
        ("[a]\n[a]\n", {2: "toml-duplicate-key"}),
        ("a = [1,\n", {2: "toml-syntax"}),
    ],
)
def test_toml_is_read_as_toml(content: str, expected: Lines) -> None:
    assert found(data.toml_syntax, "a.toml", content) == expected


@pytest.mark.parametrize(
    "content",
    [
        "a: 1\nb:\n- x\n- y: 1\n  z: 2\nc: {d: [1, 2], e: 'f'}\n",
        "a: |\n  text: with: colons\n  \tand tabs\n\n  more\nb: >-\n  folded\n",
        "a: word\n  goes on\n  and on\nb: 'quoted\n  on two lines'\n",
        "\"a b\": 1\n'c': 2\n? complex\n: key\n",
        "---\na: 1\n---\na: 1\n...\n",
        "- - a\n  - b\n- c: 1\n  d:\n  - e\n",
        "a: &x\n  b: 1\nc: *x\nd:\n  <<: *x\n  <<: *x\n",
        "url: http://example.com:80/a#b\ntime: 12:30:00\nwindows: C:\\dir\n",
        'a: "\\\n  folded \\\n  text"\n',
        "{{ template }}\na: 1\na: 2\n",
        "a: [\n  1,  # one\n  ']',\n]\nb: {c: d}\n",
        "%YAML 1.2\n---\na: !tag\n  b: 1\n",
        "- a\n - b\n",
        "# only a comment\n",
        "just a scalar\n",
        "key with spaces: 1\n-dashed: 2\n",
    ],
)
def test_yaml_that_is_in_order_is_left_alone(content: str) -> None:
    assert found(yaml.yaml_syntax, "a.yaml", content) == {}


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("a:\n\tb: 1\n", {2: "yaml-tab"}),
        ("a: 1\nb: 2\na: 3\n", {3: "yaml-duplicate-key"}),
        ("a:\n  b: 1\n  'b': 2\n", {3: "yaml-duplicate-key"}),
        ("- a: 1\n  a: 2\n- a: 3\n", {2: "yaml-duplicate-key"}),
        ("a:\n    b: 1\n  c: 2\n", {3: "yaml-syntax"}),
        ("a: 1\n  b: 2\n", {2: "yaml-syntax"}),
        ("a: 1\nb 2\n", {2: "yaml-syntax"}),
        ("a: 1\nb:2\n", {2: "yaml-syntax"}),
        ("a: b: c\n", {1: "yaml-syntax"}),
        ("a: 'open\nb: 1\n", {1: "yaml-syntax"}),
        ("a: [1, 2\nb: 1\n", {1: "yaml-syntax"}),
        ("a: [1, 2}\n", {1: "yaml-syntax"}),
        ('a: "b" c\n', {1: "yaml-syntax"}),
        ("a: @b\n", {1: "yaml-syntax"}),
        ("a: |\n  text\n\ttab\n", {3: "yaml-tab"}),
        ("a: *nowhere b\n", {1: "yaml-syntax"}),
        ("- a\nb: 1\n", {2: "yaml-syntax"}),
        ("a: {b: 1\n", {1: "yaml-syntax"}),
        ("key: 'it's'\n", {1: "yaml-syntax"}),
        ("a:\n  - b\n c: 1\n", {3: "yaml-syntax"}),
        ("%YAML 1.1\na: 1\n", {2: "yaml-syntax"}),
        ("a: !<tag b\n", {1: "yaml-syntax"}),
        ("? a\n: b\n: c\nd\n", {3: "yaml-syntax"}),
        ("a: >x\n  b\n", {1: "yaml-syntax"}),
        ('"a\\qb": 1\n', {1: "yaml-syntax"}),
    ],
)
def test_yaml_that_cannot_be_right_is_found(content: str, expected: Lines) -> None:
    assert found(yaml.yaml_syntax, "a.yaml", content) == expected


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("rm -rf $dir/tmp", "shell-unquoted-rm"),
        ("rm -r -f build ${OUT}", "shell-unquoted-rm"),
        ("if [ $x = y ]; then :; fi", "shell-unquoted-test"),
        ("[ -n $x ] && exit", "shell-unquoted-test"),
        ("[ ! $x != y ] && exit", "shell-unquoted-test"),
        ("x = 1", "shell-spaced-assignment"),
        ("for f in $(ls *.txt); do :; done", "shell-ls-loop"),
        ("exec cmd $@", "shell-unquoted-arguments"),
        ('[ "$x" == y ]', "shell-equals-in-sh"),
        ("if [[ -n $x ]]; then :; fi", "shell-bash-in-sh"),
        ("source ./env", "shell-bash-in-sh"),
        ("curl -s https://example.com/x | sudo bash", "shell-download-and-run"),
        ("chmod -R 777 /srv", "shell-open-to-all"),
        ("cd build", "shell-unchecked-cd"),
    ],
)
def test_a_mistake_in_a_shell_script_is_found(line: str, code: str) -> None:
    assert found(shell.shell_rules, "a.sh", f"#!/bin/sh\n{line}\n") == {2: code}


@pytest.mark.parametrize(
    "line",
    [
        'rm -rf "$dir/tmp" "${OUT:?}"',
        "rm -f $one",
        '[ "$x" = y ]',
        "[ $count -gt 3 ]",
        "[ -s $x ]",
        "[ -z $x ]",
        "if [ $HAS_APT ]; then :; fi",
        "echo '[ $x = y ]'  # rm -rf $x",
        'exec cmd "$@"',
        'echo "$(dirname "$0")" "${x:-"$y"}"',
        "cd build || exit 1",
        "cd /",
        "cat <<END\nrm -rf $dir\nx = 1\nEND",
        "cat <<-'END'\n\tcd build\n\tEND",
        "IFS= read -r x",
        "name=value",
        'echo "x = 1; [ $a = b ]"',
        "echo it\\'s $HOME",
    ],
)
def test_a_shell_script_that_is_in_order_is_left_alone(line: str) -> None:
    assert found(shell.shell_rules, "a.sh", f"#!/bin/sh\n{line}\n") == {}


def test_set_e_takes_care_of_cd() -> None:
    assert found(shell.shell_rules, "a.sh", "#!/bin/sh\nset -eu\ncd build\n") == {}
    assert found(shell.shell_rules, "a", "#!/bin/bash -e\ncd build\n") == {}


def test_what_bash_knows_is_no_mistake_in_bash() -> None:
    script = '#!/usr/bin/env bash\nif [[ $x == y ]]; then source z; fi\n[ "$x" == y ]\n'
    assert found(shell.shell_rules, "a.sh", script) == {}


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("def f(x=[]): pass\n", {1: "B006"}),
        ("def f(*, x=dict()): pass\n", {1: "B006"}),
        ("try:\n    pass\nexcept:\n    pass\n", {3: "E722"}),
        ("try:\n    pass\nexcept:\n    raise\n", {}),
        ("x = 1\nx == None\n", {2: "E711"}),
        ("x = 1\nx is 'a'\n", {2: "F632"}),
        ("x = input()\neval(x)\n", {2: "S307"}),
        ("eval('1')\n", {}),
        ("import subprocess as s, subprocess\ns\nsubprocess.run(f'{1}', shell=True)\n", {3: "S602"}),
        ("f''\n", {1: "F541"}),
        ("x = 1\nf'{x:>10}' f'b'\n", {}),
        ("assert (1, 'message')\n", {1: "F631"}),
        ("{'a': 1, 'b': 2, 'a': 3}\n", {1: "F601"}),
        ("def f():\n    try:\n        pass\n    finally:\n        return 1\n", {5: "B012"}),
        ("import os\nx = 1\nif x:\n    pass\n", {1: "F401"}),
        ("import os  # noqa: F401 (for others)\nif 1:\n    pass\n", {}),
        ("from a import b as b\nif 1:\n    pass\n", {}),
        ("import os\n__all__ = ['os']\nif 1:\n    pass\n", {}),
        ("# ruff: noqa\nimport os\nif 1:\n    pass\n", {}),
    ],
)
def test_what_a_tree_shows_is_found_without_ruff(code: str, expected: Lines) -> None:
    assert found(python.python_rules, "a.py", code) == expected


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("def f(:\n", {1: "syntax-error"}),
        ("x = (\n", {1: "syntax-error"}),
        ("print 'x'\n", {1: "syntax-error"}),
        ("'\\d'\n", {}),  # a warning of the parser's, not an error of the file's
        ("\ufeffx = 1\n", {}),
        ("(" * 5000 + ")" * 5000, {}),  # deeper than a parser can be asked to go
        ("<<<<<<< a\nx\n=======\ny\n>>>>>>> b\n", {}),  # told as what it is
    ],
)
def test_python_that_cannot_be_parsed_is_found(code: str, expected: Lines) -> None:
    assert found(python.python_syntax, "a.py", code) == expected


MADE_UP = "Q3EGRDTS2PLM5XWZ"


@pytest.mark.parametrize(
    "line",
    [
        f"key = 'AKIA{MADE_UP}'",
        f"token: ghp_{'aB3' * 12}",
        f"-----BEGIN RSA PRIVATE KEY-----\n{'MIIEow' * 12}",
        f"sk-ant-{'aB3' * 12}",
        "url = 'postgres://ada:kettle7on@db/ledger'",
        'password = "kettle-on-7-days"',
        '"apiKey": "9f8e7d6c5b4a3210"',
        "client_secret => 'kx81-22ab-77fe'",
    ],
)
def test_a_secret_is_found(line: str) -> None:
    assert found(secrets.secrets, "a.conf", f"# settings\n{line}\n") == {2: "secret"}


@pytest.mark.parametrize(
    "line",
    [
        "password = os.environ['PASSWORD']",
        'password = "changeme-please"',
        'password = "your-password-here"',
        'password = "${DB_PASSWORD}"',
        'api_key = "<insert key>"',
        'prompt = "Enter the password"',
        'password_label = "Enter the password"',
        "AKIAIOSFODNN7EXAMPLE",
        "https://user:${TOKEN}@host/path",
        "https://example.com:8080/a@b",
        '"AWS::IAM::AccessKey": "72c2d9dd90025459"',
        'secret = "xxxxxxxxxxxx"',
        "-----BEGIN PUBLIC KEY-----",
        'token = "abc"',
    ],
)
def test_what_only_looks_like_a_secret_is_left_alone(line: str) -> None:
    assert found(secrets.secrets, "a.conf", line) == {}


def test_values_made_up_for_tests_are_left_alone() -> None:
    for line in ('password = "kettle-on-7-days"', "url = 'postgres://ada:kettle7on@db/ledger'"):
        assert found(secrets.secrets, "tests/test_login.py", line) == {}
    key = f"-----BEGIN RSA PRIVATE KEY-----\n{'MIIEow' * 12}"
    assert found(secrets.secrets, "tests/tls/server.key", key) == {}
    assert found(secrets.secrets, "tests/test_login.py", f"key = 'AKIA{MADE_UP}'") == {1: "secret"}


def test_a_conflict_is_told_once_and_a_heading_is_none() -> None:
    conflict = "a\n<<<<<<< HEAD\nb\n=======\nc\n>>>>>>> other\n"
    assert found(leftovers.merge_markers, "a.txt", conflict) == {2: "merge-marker"}
    assert found(leftovers.merge_markers, "a.rst", "Title\n=======\n") == {}


@pytest.mark.parametrize(
    ("path", "line", "code"),
    [
        ("a.py", "breakpoint()", "debugger"),
        ("a.py", "import pdb; pdb.set_trace()", "debugger"),
        ("a.ts", "  debugger;", "debugger"),
        ("a.rb", "binding.pry", "debugger"),
        ("a.py", "x = breakpoint_count()", None),
        ("a.js", "const debuggerPort = 1", None),
        ("a.js", "if (x) { debugger; }", "debugger"),
        ("a.js", "call('debugger;') // debugger;", None),
        ("a.py", "if x: breakpoint()", "debugger"),
        ("a.py", "import pdb", None),
        ("a.py", "from pdb import Pdb", None),
        ("a.py", '"""Call pdb.set_trace() here."""', None),
        ("a.py", "x = 'breakpoint()'  # breakpoint()", None),
        ("a.rb", "binding.pry if slow", "debugger"),
    ],
)
def test_a_debugger_left_behind_is_found(path: str, line: str, code: str | None) -> None:
    assert found(leftovers.debuggers, path, line) == ({1: code} if code else {})


@pytest.mark.parametrize(
    ("path", "line", "code"),
    [
        ("a.py", "# TODO: this", "todo"),
        ("a.py", "x = 1  # style TODO: this", "todo"),
        ("a.c", "x = 1  // FIXME(ada) that", "fixme"),
        ("a.c", "/* XXX */", "xxx"),
        ("a.sql", "-- TODO an index", "todo"),
        ("a.py", "todo = []", None),
        ("a.py", "TODO = 'x'", None),
        ("a.py", "# see TODOS.md", None),
        ("a.py", "# the notes=FIXME,XXX,TODO of pylint", None),
        ("a.py", "# a number like XXX is taken", None),
        ("a.py", "x = f'# TODO: set {y}'", None),
        ("a.py", "x = 7 -- TODO", None),
        ("a.patch", "+    # TODO: this", None),
        ("PKG-INFO", "# TODO: this", None),
    ],
)
def test_notes_are_found_in_comments_alone(path: str, line: str, code: str | None) -> None:
    assert found(leftovers.notes, path, line) == ({1: code} if code else {})


def test_characters_that_hide_what_runs_are_found() -> None:
    assert found(text.hidden_characters, "a.py", "x\nif a\u202e:\n") == {2: "hidden-character"}
    assert found(text.hidden_characters, "a.py", "us\u200ber = 1\n") == {1: "hidden-character"}
    assert found(text.hidden_characters, "a.txt", "naïve 🙂‍↔️ שלום\n") == {}


LARGE = 128 * 1024
HOSTILE = {
    "quotes": '\\"' * (LARGE // 2),
    "brackets": "[" * LARGE,
    "blanks": "a" + " " * LARGE + "b",
    "empty lines": "\n" * (LARGE // 2),
    "dots": "a." * (LARGE // 2),
    "dashes": "- " * (LARGE // 2),
    "passwords": 'password="' * (LARGE // 10),
    "expansions": '"$(' * (LARGE // 3),
    "options": ("rm -r " + "-r " * 600 + "\n") * 60,
    "levels": "".join(" " * depth + "a:\n" for depth in range(500)),
}


@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE)
def test_a_file_made_to_be_slow_is_got_through(content: str) -> None:
    """Each of these takes a pattern that looks at anything twice longer than a test may take."""
    for path in ("a.json", "a.yaml", "a.toml", "a.sh", "a.py"):
        source = Source(path, "#!/bin/sh\n" + content if path == "a.sh" else content)
        for topic in topics(has_ruff=False, has_shellcheck=False):
            for check in topic.checks if topic.wants(source) else ():
                list(islice(check(source), 200))


# Languages with a grammar


SOUND = {
    "a.js": "const f = async (x) => `${x}` ?? /[}]/.test(x)\nexport default class { #p = 1 }\n",
    "a.jsx": "export const A = () => <p className='a'>{'}'}</p>\n",
    "a.ts": "type A<T> = { [K in keyof T]?: T[K] }\nexport const f = <T,>(x: T): x is NonNullable<T> => !!x\n",
    "a.tsx": "export const A = <T,>({ x }: { x: T }) => <p>{String(x)}</p>\n",
    "a.go": "package a\n\nfunc F[T any](x ...T) (n int) {\n\tdefer func() { n++ }()\n\treturn len(x)\n}\n",
    "a.rs": "pub fn f<'a, T: Fn() -> &'a str>(t: T) -> impl Iterator<Item = u8> { t().bytes() }\n",
    "A.java": "record A(int x) { static <T> T f(T t) { return switch (1) { default -> t; }; } }\n",
    "a.rb": 'def f(x:, **rest) = x&.then { |y| "#{y}" }\nputs <<~END\n  (\nEND\n',
    "a.c": "#define EACH(x) for (x = 0; x < 3; x++)\nint f(int n) { EACH(n) { n++; } return n; }\nEXPORT(f)\n",
}
BROKEN = {
    "a.js": ("const a = 1;\nfunction f( {\n  return 1;\n}\n", 2),
    "a.jsx": ("const a = 1;\nexport const A = () => <p>{a</p>;\n", 2),
    "a.ts": ("type A = { b: string\ninterface C { d: number }\nlet e: = 1\n", 1),
    "a.tsx": ("const a = 1;\nexport const A = () => <p>;\n", 2),
    "a.go": ("package a\n\nfunc F() {\n\treturn 1 +\n}\n", 4),
    "a.rs": ("fn f() {\n    let x = ;\n}\n", 2),
    "A.java": ("class A {\n    void f() {\n        int x = 1\n    }\n}\n", 3),
    "a.rb": ("def f\n  if x\n    1\nend\n", 1),
    "a.c": ("int f(int n) {\n    if (n {\n        return 1;\n    }\n    return 0;\n}\n", 2),
}


@pytest.mark.parametrize("path", SOUND)
def test_code_that_a_compiler_takes_is_left_alone(path: str) -> None:
    assert found(grammars.syntax, path, SOUND[path]) == {}


@pytest.mark.parametrize("path", BROKEN)
def test_broken_code_of_every_language_is_a_syntax_error(path: str) -> None:
    text, line = BROKEN[path]
    ((place, code),) = found(grammars.syntax, path, text).items()
    assert code == "syntax-error" and abs(place - line) <= 1


def test_scripts_that_evaluate_text_or_stop_in_a_debugger_are_found_in_the_middle_of_lines() -> None:
    text = (
        "/*\n debugger;\n*/ if (x) { y(); debugger; }\nconst v = eval(input), w = eval('1')\nrevel(x); a.eval(b)\n"
    )
    for path in ("a.js", "a.ts"):
        assert found(grammars.scripts, path, text) == {3: "debugger", 4: "js-eval"}

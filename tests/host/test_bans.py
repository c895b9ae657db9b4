"""Deny and ask rules: each can match what its author means, and none is walked around by spelling."""

import re
import time
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dragoman.host.operations import Execute, FileRead, McpTool, NetworkAccess, Operation
from dragoman.host.permissions import Permissions, Rules, RulesError
from dragoman.host.permissions.rules.matching import Circumstances

ROOT = "/home/ada/project"
HERE = Circumstances(ROOT, "claude", time.time())


def rules(directory: Path, text: str) -> Rules:
    (directory / "rules.toml").write_text(text)
    return Rules.load(directory / "rules.toml")


def toml(value: object) -> str:
    """A string or a list of strings as TOML."""
    if isinstance(value, list):
        return f"[{', '.join(map(toml, value))}]"
    return '"' + "".join(f"\\U{ord(char):08x}" for char in str(value)) + '"'


def ban(directory: Path, effect: str = "deny", operation: str = "terminal_execute", **keys: object) -> Rules:
    lines = [f"{key} = {toml(value)}" for key, value in keys.items()]
    return rules(directory, "\n".join([f"[[{effect}]]", f'operation = "{operation}"', *lines]))


def effect(rules: Rules, operation: Operation, place: Circumstances = HERE) -> str | None:
    verdict = rules.judge(operation, place)
    return verdict and verdict.effect


def run(command: str, cwd: str = ROOT) -> Execute:
    return Execute(argv=tuple(command.split()), cwd=cwd)


def sh(text: str) -> Execute:
    return Execute(argv=("/bin/sh", "-c", text), cwd=ROOT, shell=True)


# Rules that could never match


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("$HOME/keys/**", r"\$HOME, and variables are not read here; write the path itself, or ~/"),
        ("${HOME}/keys", "variables are not read"),
        ("%USERPROFILE%/keys", "variables are not read"),
        ("~root/keys", "another user's ~"),
        ("**.pem", r'\*\* is a whole part; write "\*\*/\*\.pem"'),
        ("src/**x/y", r'write "\*\*/\*x"'),
        ("!keys", "no exceptions"),
        (" keys", "blanks around it"),
        ("keys ", "blanks around it"),
        ("keys\n", "blanks around it"),
        ("ke\ny", "is no path"),
        ("C:/keys", "no drives"),
        ("keys/", r'"keys/\*\*"'),
        ("a//b", "empty part"),
        ("./keys", r"without \. and \.\."),
        ("a/../b", r"without \. and \.\."),
        ("a\\b", "separated by /"),
        ("*.{pem,crt", "not closed"),
        ("*.pem,crt}", "not closed"),
        ("{a,b}" * 8, "more than 100 patterns"),
        ("x" * 1025, "at most 1024 characters"),
    ],
)
@pytest.mark.parametrize("kind", ["deny", "ask", "allow"])
def test_a_path_that_would_never_match_is_refused_with_its_line(
    tmp_path: Path, kind: str, path: str, says: str
) -> None:
    with pytest.raises(RulesError, match=rf"rules\.toml:1 \({kind} rule 1\): .*{says}"):
        ban(tmp_path, kind, "file_read", path=path)


@pytest.mark.parametrize(
    ("path", "banned", "free"),
    [
        ("*.{pem,crt}", "a.pem b.crt A.PEM *.{pem,crt}", "a.key"),
        ("{src,lib}/*.{a,b}", "src/x.a lib/y.b", "src/x.c"),
        ("*.{pem,{crt,key}}", "a.pem a.crt a.key", "a.txt"),
        ("secret[0-9]", "secret5 SECRET0 secret[0-9]", "secretx secret55"),
        ("secret[!0-9]", "secretx", "secret5"),
        ("secret[abc]/**", "secreta secretb/x", "secretd"),
        ("[id].ts", "[id].ts i.ts d.ts", "x.ts"),
        ("**/*.pem", "a.pem x/y/a.pem", "a.pems"),
        ("~/keys", "/home/ada/keys /home/ada/keys/x", "/home/bob/keys"),
        ("routes/$id.tsx", "routes/$id.tsx", "routes/id.tsx"),
        ("~", "/home/ada/x", "/etc/x"),
    ],
)
def test_what_the_language_has_bans_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, banned: str, free: str
) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    found = ban(tmp_path, operation="file_read", path=path)
    for name in banned.split():
        assert effect(found, FileRead(path=name if name.startswith("/") else f"{ROOT}/{name}")) == "deny", name
    for name in free.split():
        assert effect(found, FileRead(path=name if name.startswith("/") else f"{ROOT}/{name}")) is None, name


def test_brackets_in_what_is_allowed_are_brackets(tmp_path: Path) -> None:
    found = ban(tmp_path, "allow", "file_read", path="app/[id]/page-{a,b}.tsx")
    assert effect(found, FileRead(path=f"{ROOT}/app/[id]/page-a.tsx")) == "allow"
    assert effect(found, FileRead(path=f"{ROOT}/app/[id]/page-{{a,b}}.tsx")) is None
    assert effect(found, FileRead(path=f"{ROOT}/app/i/page-a.tsx")) is None


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["terraform destroy"], r'no program is called so; write argv = \["terraform", "destroy", …\]'),
        (["terraform destroy", "..."], "no program is called so"),
        ([" "], "no program is called so"),
        (["cat", "~/.ssh/id_rsa"], "no shell reads this"),
        (["cat", "$HOME/.ssh/id_rsa"], "no shell reads this"),
        (["rm", "$(pwd)"], "no shell reads this"),
        (["rm", "-{r,f}"], "braces stay as they are"),
        (["rm", "..."] * 2, "stands at the end"),
        (["rm", "x" * 1025], "at most 1024"),
    ],
)
def test_a_command_that_would_never_match_is_refused_with_its_line(
    tmp_path: Path, argv: list[str], says: str
) -> None:
    with pytest.raises(RulesError, match=rf"rules\.toml:1 \(deny rule 1\): .*{says}"):
        ban(tmp_path, argv=argv)


@pytest.mark.parametrize(
    "rule",
    [
        {"operation": "mcp_tool", "server": " github"}, {"operation": "mcp_tool", "tool": ["a", "b "]},
        {"operation": "file_read", "agent": " "}, {"shell": "  "},
        {"operation": "network_access", "host": " a.com"},
    ],
)  # fmt: skip
def test_a_name_with_blanks_around_it_is_refused(tmp_path: Path, rule: dict[str, object]) -> None:
    with pytest.raises(RulesError, match=r"rules\.toml:1 \(deny rule 1\): .*blanks around it"):
        ban(tmp_path, **{"operation": "terminal_execute", **rule})  # type: ignore[arg-type]


CHARACTERS = "ab*?[]{}09-,~/$.! H\\"


def _witness(glob: str) -> str:
    """A path that a shell would say fits a pattern: the first of each choice, x for what is left open."""
    chosen = {"**": "x/y", "*": "xx", "?": "x"}

    def choice(found: re.Match[str]) -> str:
        inside = found[0][1:-1]
        return chosen.get(found[0]) or ("é" if inside[0] in "!^" else inside[0])

    glob = re.sub(r"\{([^{},]*),[^{}]*\}", r"\1", glob)
    members = r"(?:\][^\]/]*|[^\]/]+)"
    return re.sub(rf"\[(?:[!^]{members}|(?![!^]){members})\]|\*\*|\*|\?", choice, glob)


@settings(max_examples=400, deadline=None)
@given(st.text(CHARACTERS, min_size=1, max_size=12))
@example("*.{pem,crt}")
@example("secret[0-9]")
@example("[!a]")
@example("[!][0]")
@example("[]a]")
def test_a_path_that_is_accepted_bans_something_a_shell_would_say_fits_it(
    tmp_path_factory: pytest.TempPathFactory, glob: str
) -> None:
    directory = tmp_path_factory.getbasetemp()
    try:
        found = ban(directory, operation="file_read", path=glob)
    except RulesError:
        return
    witness = _witness(glob)
    if glob == "~" or glob.startswith("~/"):
        witness = str(Path.home()) + witness[1:]
    path = witness if witness.startswith("/") else f"{ROOT}/{witness}"
    assert effect(found, FileRead(path=path)) == "deny"


@settings(max_examples=300, deadline=None)
@given(st.lists(st.text("ab*?[]{} -~$.0x", min_size=1, max_size=8), min_size=1, max_size=4))
def test_a_command_that_is_accepted_bans_something_that_fits_it(
    tmp_path_factory: pytest.TempPathFactory, words: list[str]
) -> None:
    try:
        found = ban(tmp_path_factory.getbasetemp(), argv=words)
    except RulesError:
        return
    argv = tuple(_witness(re.sub("[*]+", "*", word)) for word in words)
    if argv[0]:
        assert effect(found, Execute(argv=argv, cwd=ROOT)) in ("deny", "ask")


@settings(max_examples=300, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(
            ["operation", "path", "argv", "shell", "cwd", "host", "server", "tool", "agent", "expires", "x"]
        ),
        st.one_of(
            st.sampled_from(["file_read", "terminal_execute", "network_access", "mcp_tool", "*"]).map(toml),
            st.text(max_size=20).map(toml),
            st.lists(st.text(max_size=8), max_size=3).map(toml),
            st.integers(-9, 9).map(str),
            st.dates().map(str),
            st.datetimes().map(lambda when: when.isoformat()),
            st.times().map(str),
        ),
    ),
    st.sampled_from(["deny", "ask", "allow"]),
)
def test_a_file_of_rules_is_read_or_refused_and_never_fails_otherwise(
    tmp_path_factory: pytest.TempPathFactory, keys: dict[str, str], kind: str
) -> None:
    text = "\n".join([f"[[{kind}]]", *(f"{key} = {value}" for key, value in keys.items())])
    try:
        found = rules(tmp_path_factory.getbasetemp(), text)
    except RulesError as refused:
        assert "rules.toml" in str(refused)
    else:
        for operation in (FileRead(path="/a"), run("a b"), sh("a b"), NetworkAccess(url="https://a/"),
                          McpTool(server="a", tool="b")):  # fmt: skip
            effect(found, operation)


# Walking around a ban

# A ban, the commands it has to catch, and after an empty line others that are none of its business.
BANS = {
    "terraform destroy ...": """
        terraform destroy | TERRAFORM destroy | /bin/terraform destroy -auto-approve | terraform -chdir=x destroy
        terraform -chdir prod destroy | terraform --chdir=prod destroy -auto-approve | terraform DESTROY
        env terraform destroy | sudo -u x terraform destroy | timeout 5 terraform destroy | xargs terraform destroy
        terraform1.5 destroy

        terraform plan | terraform -chdir=prod plan | terraform | ls destroy | git log
    """,
    "terraform destroy": """
        terraform destroy -auto-approve | terraform -chdir=x destroy

        terraform plan
    """,
    "gh pr merge ...": """
        gh pr merge 5 | gh -R a/b pr merge 5 | gh pr -R a/b merge | gh --repo=a/b pr merge | gh pr merge --admin

        gh pr view 5 | gh pr list | gh issue list
    """,
    "git push ...": """
        git push | git -C x push | git --git-dir=x push -f | git -c a=b push | git-push origin
        git -c alias.x=push x | git -c alias.x=!git;push x | perl -e exec"git","push" | python -c os.system('git')

        git log | git status
    """,
    "git push --force ...": """
        git push -f | git push --force | git push --forc | git push origin --force-with-lease | git -C x push -uf

        git push | git push origin main
    """,
    "rm -rf ...": """
        rm -rf x | rm -fr x | rm -r -f x | rm -f -r x | rm --recursive --force x | rm -Rf x | rm -r --force x
        rm -rfv x | rm -vrf x | rm --recurs --forc x | rm -i -r -f x | rm --force -r x | /bin/rm -f x -R | rm x -rf
        busybox rm -rf x | find . -exec rm -rf {} +

        rm x | rm -r x | rm -f x | rm -i x
    """,
    "kubectl -n prod delete ...": """
        kubectl -n prod delete pod x | kubectl delete -n prod pod | kubectl delete pod --namespace=prod x
        kubectl -nprod delete x

        kubectl -n test get pods | kubectl get pods -n prod
    """,
    "docker run --privileged ...": """
        docker run -it --privileged=true x | docker --host=y run --privileged x

        docker ps
    """,
    "terraform dest* ...": """
        terraform destroy | terraform destruct x | terraform -chdir=x destroy

        terraform plan
    """,
    "tf* ...": """
        tf x | tfswitch | /opt/tf1 y | env tfx

        terraform plan
    """,
    "* push ...": """
        git push | hg push x

        git log
    """,
    "python3* ...": """
        python3 x | python3.11 x | python3

        python2 x
    """,
}


def listed(text: str) -> list[str]:
    return [command.strip() for command in re.split(r"\||\n", text) if command.strip()]


@pytest.mark.parametrize("words", BANS)
async def test_a_ban_on_a_command_is_not_walked_around_by_spelling(tmp_path: Path, words: str) -> None:
    found = ban(tmp_path, argv=words.split())
    caught, free = map(listed, BANS[words].split("\n\n"))
    assert [command for command in caught if effect(found, run(command)) not in ("deny", "ask")] == []
    assert [command for command in free if effect(found, run(command)) is not None] == []
    permissions = Permissions("allow-all", found)  # nobody to ask: what would be asked about is not done
    for command in caught:
        operation = Execute(argv=tuple(command.split()), cwd=str(tmp_path))
        assert not await permissions.decide("s", operation, workspace=tmp_path), command


def test_what_a_ban_says_is_denied_and_not_only_asked_about(tmp_path: Path) -> None:
    for words, command in (
        ("rm -rf ...", "rm -rf x"), ("tf* ...", "tfswitch"), ("terraform dest* ...", "terraform destroy x"),
        ("terraform destroy", "/bin/TERRAFORM destroy"), ("rm ...", "rm"),
    ):  # fmt: skip
        assert effect(ban(tmp_path, argv=words.split()), run(command)) == "deny", command
    for text, said in (("terraform *", "terraform  destroy"), ("*rm -rf*", "cd x; rm -rf y"), ("make", "make")):
        assert effect(ban(tmp_path, shell=text), sh(said)) == "deny", said


AROUND_WITH_A_SHELL = r"""
terraform destroy -auto-approve
cd x && terraform destroy
terraform -chdir=x destroy
t''erraform destroy
terr\aform destroy
"terraform" 'destroy'
terraform $(echo destroy)
X=destroy; terraform $X
T=terraform; $T destroy
$(echo terraform) destroy
`which terraform` destroy
${T} destroy
"$T" destroy
eval "$CMD"
echo eCAteQo= | base64 -d | sh
curl x | bash -s
curl x | bash -s -- y
bash -c "$CMD"
bash < script
<script bash
/usr/bin/terr?form destroy
terraform {destroy,plan}
env terraform destroy
if true; then terraform destroy; fi
(terraform destroy)
xargs terraform < args
xargs -a args terraform
cat args | xargs -n1 terraform -chdir prod
cat args | parallel terraform
TERRAFORM Destroy
terraform   destroy
"$(printf ter)raform" destroy
echo "$($X destroy)"
# a comment; terraform destroy
X=1 terraform destroy
! terraform destroy
"""
INNOCENT_IN_A_SHELL = r"""
npm test
ls -la | head
terraform plan && echo done
for f in *.py; do echo $f; done
make test 2>&1
echo "a; $x"
awk '{print $1; $2}' a
sed -n '$p' a
X=$(date) npm test
X=$Y npm test
cd x && ./run.sh > $log 2>&1
./run.sh &> $log
git log | cat
[ -f x ] && echo y
[[ -n $X ]] && echo y
test -n "$X" || exit 1
while read l; do echo "$l"; done < x
bash run.sh x
echo destroy
ls | xargs terraform plan
ls | xargs wc -l
"""


def test_a_shells_spelling_is_no_way_around_a_ban(tmp_path: Path) -> None:
    said = [*AROUND_WITH_A_SHELL.strip().splitlines(), "cd x\nterraform\\\n destroy", "# x\nterraform\tdestroy"]
    said += ["terraform de\\\nstroy", "terra\\\nform destroy"]
    for found in (ban(tmp_path, argv=["terraform", "destroy", "..."]), ban(tmp_path, shell="terraform destroy")):
        assert [text for text in said if effect(found, sh(text)) not in ("deny", "ask")] == []


def test_a_shells_other_commands_are_not_asked_about(tmp_path: Path) -> None:
    said = INNOCENT_IN_A_SHELL.strip().splitlines()
    for found in (ban(tmp_path, argv=["terraform", "destroy", "..."]), ban(tmp_path, shell="terraform destroy")):
        assert [text for text in said if effect(found, sh(text)) is not None] == []


def test_a_ban_on_a_shells_text_is_about_the_same_words_without_a_shell(tmp_path: Path) -> None:
    found = ban(tmp_path, shell="terraform *")
    assert effect(found, run("terraform plan")) == "ask"
    assert effect(found, run("ls")) is None
    assert effect(found, sh("cd x && terraform plan")) == "ask"


# Other operations


def test_names_of_mcp_servers_and_tools_are_banned_in_every_spelling(tmp_path: Path) -> None:
    found = ban(tmp_path, operation="mcp_tool", server="GitHub", tool="delete_*")
    for server, tool, expected in (
        ("GitHub", "delete_repo", "deny"), ("github", "DELETE_REPO", "deny"), ("GITHUB", "Delete_x", "deny"),
        ("git-hub", "delete_repo", "ask"), ("github", "delete-repo", "ask"), ("github", "deleteRepo", "ask"),
        ("gitlab", "delete_repo", None), ("github", "get_repo", None),
    ):  # fmt: skip
        assert effect(found, McpTool(server=server, tool=tool)) == expected, (server, tool)
    exact = ban(tmp_path, "allow", "mcp_tool", server="GitHub", tool="get_*")
    assert effect(exact, McpTool(server="github", tool="get_x")) is None
    assert effect(ban(tmp_path, operation="mcp_tool", server="git*"), McpTool(server="GitLab", tool="x")) == "deny"


@pytest.mark.parametrize(
    "tool",
    [
        "\uff44elete", "\uff24\uff25\uff2c\uff25\uff34\uff25",  # full-width letters
        "d\u200belete", "\ufeffdelete", "delet\u00ade", "\u202edelete", "d\ufe0felete", "delete\u3164",  # unseen
        "\U0001d41delete", "de\u2113ete", "\u24d3elete", "d\u2130lete",  # mathematical, script, circled letters
    ],
)  # fmt: skip
def test_a_tool_whose_name_looks_like_a_banned_one_is_banned(tool: str, tmp_path: Path) -> None:
    found = ban(tmp_path, operation="mcp_tool", server="x", tool="delete")
    for server in ("x", "\uff58", "x\u200d"):
        assert effect(found, McpTool(server=server, tool=tool)) == "deny", (server, tool)
        assert effect(found, McpTool(server=server, tool=f"{tool}d")) is None
    assert (
        effect(ban(tmp_path, "allow", "mcp_tool", server="x", tool="delete"), McpTool(server="x", tool=tool))
        is None
    )
    written_so = ban(tmp_path, operation="mcp_tool", server="x", tool="\uff44elete")
    assert effect(written_so, McpTool(server="x", tool="delete")) == "deny"


def test_a_name_of_several_characters_in_one_is_compared_as_they_are(tmp_path: Path) -> None:
    found = ban(tmp_path, operation="mcp_tool", server="x", tool="office_*")
    assert effect(found, McpTool(server="x", tool="o\ufb03ce_close")) == "deny"  # a ligature of three letters
    assert (
        effect(ban(tmp_path, operation="mcp_tool", tool="caf\u00e9"), McpTool(server="x", tool="cafe\u0301"))
        == "deny"
    )


def test_a_banned_host_is_asked_about_with_its_children_ports_and_schemes(tmp_path: Path) -> None:
    for host, url, expected in (
        ("evil.com", "https://evil.com/", "deny"), ("evil.com", "https://www.evil.com/", "ask"),
        ("*.evil.com", "https://evil.com/", "ask"), ("*.evil.com", "https://a.evil.com/", "deny"),
        ("https://evil.com", "http://evil.com/", "ask"), ("https://evil.com:8443", "https://evil.com/", "ask"),
        ("evil.com", "https://notevil.com/", None), ("evil.com", "https://evil.com.good.org/", None),
    ):  # fmt: skip
        found = ban(tmp_path, operation="network_access", host=host)
        assert effect(found, NetworkAccess(url=url)) == expected, (host, url)


def test_a_ban_for_an_agent_holds_for_its_name_in_any_case_and_may_for_one_without_a_name(tmp_path: Path) -> None:
    found = ban(tmp_path, operation="file_read", agent="Claude")
    read = FileRead(path=f"{ROOT}/a")
    assert effect(found, read, Circumstances(ROOT, "claude", time.time())) == "deny"
    assert effect(found, read, Circumstances(ROOT, "", time.time())) == "ask"
    assert effect(found, read, Circumstances(ROOT, "codex", time.time())) is None


def test_a_relative_path_is_asked_about_outside_the_workspace(tmp_path: Path) -> None:
    found = ban(tmp_path, operation="file_read", path="secrets")
    assert effect(found, FileRead(path=f"{ROOT}/secrets/a")) == "deny"
    assert effect(found, FileRead(path=f"{ROOT}/x/secrets/a")) is None
    assert effect(found, FileRead(path="/srv/shared/secrets/a")) == "ask"
    assert effect(found, FileRead(path=f"{ROOT}/secrets/a"), Circumstances(None)) == "ask"
    assert effect(found, FileRead(path="/srv/shared/a")) is None


# Long commands


def test_what_is_too_long_to_be_looked_through_is_asked_about(tmp_path: Path) -> None:
    found = ban(tmp_path, argv=["terraform", "destroy", "..."])
    assert effect(found, sh("echo " + "x" * 1_000_000)) == "ask"
    assert effect(found, Execute(argv=("echo", *["x"] * 200_000), cwd=ROOT)) == "ask"
    assert effect(found, Execute(argv=("terraform", "destroy", *["x"] * 200_000), cwd=ROOT)) == "deny"
    assert effect(ban(tmp_path, shell="terraform *"), sh("terraform " + "x" * 100_000)) == "deny"


def test_rules_that_would_take_too_long_to_compare_are_asked_about(tmp_path: Path) -> None:
    wild = "\n".join(
        f'[[deny]]\noperation = "terminal_execute"\nargv = ["*a*{n}*b*", "*x*y", "..."]\n' for n in range(1000)
    )
    found = rules(tmp_path, wild)
    assert effect(found, Execute(argv=("ls", *[f"xw{n}aaaab" for n in range(900)]), cwd=ROOT)) is None  # known
    assert effect(found, Execute(argv=("ab", *[f"xw{n}aaaab" for n in range(900)]), cwd=ROOT)) == "ask"
    deep = "\n".join(f'[[deny]]\noperation = "file_read"\npath = "**/*a*{n}/**/*b*"\n' for n in range(1000))
    found = rules(tmp_path, deep)
    assert effect(found, FileRead(path=f"{ROOT}/src/a.py")) is None
    assert effect(found, FileRead(path=ROOT + "/aaab" * 100)) == "ask"
    assert effect(found, FileRead(path=f"{ROOT}/xa7/y/b")) == "deny"


def test_a_shells_text_of_very_many_commands_is_asked_about(tmp_path: Path) -> None:
    found = ban(tmp_path, argv=["terraform", "destroy", "..."])
    assert effect(found, sh("echo x; " * 400)) is None
    assert effect(found, sh("echo x; " * 600)) == "ask"

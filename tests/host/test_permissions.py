"""Permissions: decided on what will be done, asked when in doubt, and no when anything fails."""

import asyncio
import itertools
import os
import random

import pytest
from patience import PATIENCE
from torture.host_faults import DISK_FAULTS, FAULTS, YES, by_answer, by_decide, faults
from torture.host_permissions import (
    PROTECTED,
    SECRET,
    USUAL,
    Screen,
    allowed_among,
    cases,
    disagreements,
    flood,
    misleading,
    offered,
    permits,
    request,
    spoof,
    spoofed,
    trick_rules,
    try_protected,
)
from torture.repositories import CONTROL, GIT_DIRECTORIES, LINKS, repositories
from torture.shell_tricks import BENIGN, TRICKS

from dragoman import Agent, Client, connect
from dragoman import schema as s
from dragoman.host.audit import AuditLog, verify
from dragoman.host.audit.chain import read_line
from dragoman.host.git_directories import is_git_directory
from dragoman.host.operations import Execute, FileDelete, FileRead, FileWrite, McpTool, NetworkAccess
from dragoman.host.permissions import PRESETS, ApprovalStore, Permissions, Rules, scrutiny
from dragoman.host.permissions.rules.matching import Rule

pytestmark = pytest.mark.usefixtures("nothing_left")

ALL_FILES = "\n".join(
    f'[[allow]]\noperation = "{kind}"\npath = ["**", "/**"]\n'
    for kind in ("file_read", "file_write", "file_delete")
)


@pytest.fixture
def root(tmp_path):
    path = tmp_path.resolve() / "workspace"
    path.mkdir()
    return path


@pytest.fixture
def store(tmp_path):
    return ApprovalStore(tmp_path / "state" / "approvals.json")


def read(root, name="a.txt"):
    return FileRead(path=f"{root}/{name}")


def deny(*kinds):
    return Rules([Rule(effect="deny", operations=kinds, where="here", reason="not here")])


# Presets


ALLOWED = {
    "ask": "",
    "allow-reads": "file_read",
    "allow-edits": "file_read file_write",
    "allow-all": "file_read file_write file_delete terminal_execute network_access mcp_tool",
    "deny": "",
}


@pytest.mark.parametrize("preset", PRESETS)
async def test_a_preset_allows_what_it_says_and_asks_about_the_rest(preset, root):
    screen = Screen("reject_once")
    permissions = Permissions(preset, asker=screen)
    operations = [
        read(root), FileWrite(path=f"{root}/a", digest="d"), FileDelete(path=f"{root}/a"),
        Execute(argv=("ls",), cwd=str(root)), NetworkAccess(url="https://example.com"),
        McpTool(server="a", tool="b"),
    ]  # fmt: skip
    for operation in operations:
        decision = await permissions.decide("s", operation, workspace=root)
        assert decision.allowed == bool(decision) == (operation.kind in ALLOWED[preset].split())
    asked = [question.operation.kind for question in screen.seen]
    others = [operation.kind for operation in operations if operation.kind not in ALLOWED[preset].split()]
    assert asked == ([] if preset == "deny" else others)


async def test_a_preset_reaches_as_far_as_the_directories_of_the_session(root):
    screen = Screen("reject_once")
    permissions = Permissions("allow-edits", asker=screen)
    write = FileWrite(path="/srv/shared/a", digest="d")
    assert not await permissions.decide("s", write, workspace=root)
    assert await permissions.decide("s", write, workspace=root, directories=["/srv/shared"])
    assert not await permissions.decide("s", FileRead(path=f"{root}2/a"), workspace=root)
    assert len(screen.seen) == 2


async def test_a_preset_can_be_changed_at_run_time(root):
    permissions = Permissions()
    assert not await permissions.decide("s", read(root), workspace=root)
    permissions.preset = "allow-reads"
    assert await permissions.decide("s", read(root), workspace=root)
    with pytest.raises(ValueError, match="allow-reads"):
        permissions.preset = "yolo"


async def test_deny_asks_nobody_even_where_a_rule_allows(root, tmp_path):
    (tmp_path / "r.toml").write_text(ALL_FILES)
    screen = Screen()
    permissions = Permissions("deny", Rules.load(tmp_path / "r.toml"), screen)
    assert not await permissions.decide("s", read(root), workspace=root)
    params = request(title="x")
    assert not permits(await permissions.answer(params), params)
    assert screen.seen == []


# What an agent says


async def test_nothing_an_agent_says_about_itself_authorises():
    asked, allowed = await spoof(500)
    assert (asked, allowed) == (500, 0)


async def test_what_an_agent_says_is_shown_as_its_own_words_and_safely():
    screen = Screen("agent_1")
    for params in spoofed(20):
        await Permissions(asker=screen).answer(params)
    for question in screen.seen:
        assert question.operation is None
        assert "cannot be checked" in question.warnings[0]
        assert "rm -rf ~" in question.text
        assert all(line.isprintable() for line in question.text.splitlines())
        assert all(option.label.isprintable() for option in question.options)


async def test_the_answer_to_an_agent_is_the_option_the_user_chose():
    for number, kind in enumerate(("allow_always", "allow_once", "reject_once"), 1):
        params = request(title="x")
        response = await Permissions(asker=Screen(f"agent_{number}")).answer(params)
        assert response.outcome == s.SelectedPermissionOutcome(option_id=kind)


async def test_a_request_with_options_of_its_own_kind_keeps_the_users_choice():
    options = [offered("Yes", "allow_once"), offered("No", "reject_once"), offered("No, never", "reject_always")]
    response = await Permissions(asker=Screen("agent_3")).answer(request(options=options))
    assert response.outcome.option_id == "reject_always"


@pytest.mark.parametrize(
    ("preset", "options", "chosen"),
    [
        ("allow-all", USUAL, "allow_once"),
        ("allow-all", [offered("Always", "allow_always")], "allow_always"),
        ("allow-all", [offered("No", "reject_once")], "reject_once"),
        ("deny", USUAL, "reject_once"),
        ("deny", [offered("Never", "reject_always"), offered("Go", "allow_once")], "reject_always"),
        ("deny", [offered("Go", "allow_once")], None),
    ],
)
async def test_two_presets_answer_agents_by_themselves(preset, options, chosen):
    screen = Screen()
    outcome = (await Permissions(preset, asker=screen).answer(request(options=options))).outcome
    assert getattr(outcome, "option_id", None) == chosen
    assert screen.seen == []


async def test_a_request_without_a_no_can_be_denied():
    params = request(options=[offered("Go", "allow_once")])
    screen = Screen("reject_once")
    response = await Permissions(asker=screen).answer(params)
    assert isinstance(response.outcome, s.CancelledPermissionOutcome)
    assert [option.allows for option in screen.seen[0].options] == [True, False, False]


async def test_options_that_mislead_are_answered_cancelled_and_written_down(tmp_path):
    screen = Screen("agent_1")
    with AuditLog(tmp_path / "audit.jsonl") as log:
        for preset in ("ask", "allow-all"):
            for params in misleading(200):
                response = await Permissions(preset, asker=screen, audit=log.record).answer(params)
                assert isinstance(response.outcome, s.CancelledPermissionOutcome)
    assert screen.seen == []
    records = [read_line(line) for line in (tmp_path / "audit.jsonl").read_bytes().splitlines(keepends=True)]
    assert sum("misleading" in record.fields.get("why", "") for record in records) == 400


async def test_what_an_agent_says_at_length_is_cut_before_it_is_shown():
    long = "\x1b'x\u0301" * 100_000
    screen = Screen("agent_3")
    content = [s.Content(content=s.TextContent(text=long)) for _ in range(30)]
    params = request(title=long, name=long, raw_input={"a": long, "b": [long] * 1000}, content=content)
    await Permissions(asker=screen).answer(params)
    (question,) = screen.seen
    assert not question.is_whole
    assert len(question.text) < 120_000
    named = request(options=[offered("Allow" + " " * 2000, "allow_once"), offered("No", "reject_once")])
    assert isinstance((await Permissions(asker=screen).answer(named)).outcome, s.CancelledPermissionOutcome)
    assert len(screen.seen) == 1


async def test_a_tools_arguments_that_are_not_shown_whole_are_allowed_once_at_most(root, store):
    screen = Screen("reject_once")
    for arguments in ({"a": "x" * 100_000}, {str(n): n for n in range(10_000)}, ["x"] * 10_000):
        call = McpTool(server="a", tool="b", arguments=arguments)
        await Permissions(asker=screen, store=store).decide("s", call, workspace=root)
    for question in screen.seen:
        assert not question.is_whole
        assert [option.id for option in question.options if option.allows] == ["allow_once"]


@pytest.mark.parametrize(
    "options",
    [
        [
            ("acceptEdits", "Yes, and auto-accept edits", "allow_always"),
            ("default", "Yes", "allow_once"),
            ("plan", "No, keep planning", "reject_once"),
        ],
        [
            ("approved-for-session", "Always", "allow_always"),
            ("approved", "Yes", "allow_once"),
            ("abort", "No, provide feedback", "reject_once"),
        ],
        [
            ("proceed_always", "Allow for this session", "allow_always"),
            ("proceed_once", "Allow", "allow_once"),
            ("cancel", "Reject", "reject_once"),
        ],
        [
            ("once", "Allow once", "allow_once"),
            ("always", "Always allow", "allow_always"),
            ("reject", "Reject", "reject_once"),
        ],
        [
            ("a", "Don't ask again", "allow_always"),
            ("b", "Don't allow", "reject_once"),
            ("c", "Never", "reject_always"),
        ],
    ],
)
async def test_the_options_of_real_agents_are_understood(options):
    params = request(options=[offered(name, kind, id) for id, name, kind in options])
    screen = Screen("agent_1")
    await Permissions(asker=screen).answer(params)
    assert len(screen.seen) == 1


async def test_over_a_real_connection_a_cancelled_turn_withdraws_its_question(root):
    shown = asyncio.Event()
    withdrawn = []

    async def asker(question):
        shown.set()
        try:
            await asyncio.Event().wait()
        finally:
            withdrawn.append(question.title)

    class Asking(Agent):
        async def answer(self, turn):
            async with turn.tool("rm -rf ~", kind="read") as call:
                await turn.ask(call)

    class Host(Client):
        permissions = Permissions(asker=asker)

        async def request_permission(self, params):
            return await self.permissions.answer(params)

    async with asyncio.timeout(PATIENCE), connect(Asking, Host()) as client:
        session = await client.new_session(cwd=root)
        turn = session.prompt("go")
        await shown.wait()
        session.cancel()
        assert (await turn).stop_reason == "cancelled"
    assert withdrawn == ["The agent asks for permission"]


# Commands


async def test_no_shell_trick_is_allowed_by_a_rule_for_something_else(tmp_path):
    assert len(set(TRICKS)) >= 170
    assert await allowed_among(TRICKS, trick_rules(tmp_path)) == []


async def test_the_commands_the_rules_are_about_are_allowed(tmp_path):
    assert len(set(BENIGN)) >= 80
    assert await allowed_among(BENIGN, trick_rules(tmp_path)) == list(BENIGN)


async def test_dangerous_variables_always_ask(root):
    names = (
        "LD_PRELOAD DYLD_INSERT_LIBRARIES PYTHONPATH PYTHONSTARTUP NODE_OPTIONS BASH_ENV ENV GIT_SSH_COMMAND PATH "
    )
    names += (
        "GIT_DIR PERL5LIB RUBYOPT JAVA_TOOL_OPTIONS npm_config_script_shell PAGER EDITOR PROMPT_COMMAND IFS HOME "
    )
    names += "HTTPS_PROXY ld_preload LD_AUDIT GCONV_PATH SSH_ASKPASS RUSTC_WRAPPER"
    screen = Screen("allow_once")
    permissions = Permissions("ask", asker=screen)
    for name in names.split():
        operation = Execute(argv=("ls",), cwd=str(root), env=((name, "x"),))
        assert await permissions.decide("s", operation, workspace=root)
        assert name in screen.seen[-1].warnings[0]
        assert f"with {name}=x" in screen.seen[-1].text
        assert [option.id for option in screen.seen[-1].options] == ["allow_once", "reject_once", "reject_turn"]
    assert len(screen.seen) == len(names.split())
    harmless = Execute(argv=("ls",), cwd=str(root), env=(("CI", "1"), ("LANG", "C"), ("DEBUG", "x")))
    assert await permissions.decide("s", harmless, workspace=root)
    assert screen.seen[-1].warnings == ()


async def test_a_thousand_dangerous_variables_are_one_short_warning_and_more_are_refused(root):
    screen = Screen("reject_once")
    for count in (10_000, 1000):
        env = tuple((f"LD_{number}", "x") for number in range(count))
        operation = Execute(argv=("ls",), cwd=str(root), env=env, dangerous_env=tuple(name for name, _ in env))
        assert not await Permissions("ask", asker=screen).decide("s", operation, workspace=root)
    ((warning,),) = (question.warnings for question in screen.seen)
    first = sorted(f"LD_{number}" for number in range(1000))[:10]
    assert warning == f"{', '.join(first)} and 990 more can change what is run"


async def test_what_the_host_calls_dangerous_is(root):
    screen = Screen("reject_once")
    operation = Execute(argv=("ls",), cwd=str(root), env=(("X", "1"),), dangerous_env=("X",))
    assert not await Permissions("ask", asker=screen).decide("s", operation, workspace=root)
    function = Execute(argv=("ls",), cwd=str(root), env=(("X", "() { :; }"),))
    assert not await Permissions("ask", asker=screen).decide("s", function, workspace=root)
    rule = Rule(effect="allow", operations=("terminal_execute",), where="here", argv=("ls",), env={"X": "1"})
    permissions = Permissions("ask", Rules([rule]), screen)
    assert await permissions.decide("s", operation, workspace=root)  # the rule names the variable with its value
    unnamed = Execute(argv=("ls",), cwd=str(root), dangerous_env=("Y",))
    assert not await permissions.decide("s", unnamed, workspace=root)
    unset = Execute(argv=("ls",), cwd=str(root), dangerous_env=("X",))  # which nobody gives the value of the rule
    assert not await permissions.decide("s", unset, workspace=root)
    assert len(screen.seen) == 4


async def test_an_address_with_several_readings_always_asks(root):
    screen = Screen("reject_once")
    for url in (
        "https://example.com@evil.com/",
        "http://2130706433/",
        "https://ex\u0430mple.com/",
        "x",
        "http://a\\b",
    ):
        assert not await Permissions("ask", asker=screen).decide("s", NetworkAccess(url=url), workspace=root)
    assert len(screen.seen) == 5
    assert "evil.com" in screen.seen[0].warnings[0]


@pytest.mark.parametrize(
    "operation",
    [
        FileRead(path="a"), FileRead(path=""), FileRead(path="/a\0b"), FileWrite(path="/a", digest=""),
        FileDelete(path="../a"),
        Execute(argv=(), cwd="/"), Execute(argv=("",), cwd="/"), Execute(argv=("a",), cwd="b"),
        Execute(argv=("a\0",), cwd="/"),
        Execute(argv=("a",), cwd="/", env=(("", "x"),)), Execute(argv=("a",), cwd="/", env=(("A=B", "x"),)),
        Execute(argv=("a",), cwd="/", env=(("A", "\0"),)), NetworkAccess(url=""), McpTool(server="", tool="x"),
        McpTool(server="x", tool=""), McpTool(server="x", tool="y", arguments=...), None, "file_read",
        FileRead(path="/" + "x/" * 3000), Execute(argv=("a",), cwd="/" + "x/" * 3000),
        Execute(argv=("a", "x" * 200_000), cwd="/"), Execute(argv=("a",) * 300_000, cwd="/"),
        Execute(argv=("sh", "-c", "a; " * 400_000), cwd="/", shell=True),
        Execute(argv=("a",), cwd="/", env=(("A", "x" * 200_000),)),
        Execute(argv=("a",), cwd="/", env=tuple((f"A{n}", "x") for n in range(1001))),
        NetworkAccess(url="https://a/" + "x" * 100_000), McpTool(server="x" * 2000, tool="y"),
        McpTool(server="x", tool="y" * 2000),
    ],
    ids=lambda operation: repr(operation)[:60],
)  # fmt: skip
async def test_what_cannot_be_what_it_says_is_refused_unasked(operation):
    screen = Screen()
    assert not await Permissions("allow-all", asker=screen).decide("s", operation)
    assert screen.seen == []


@pytest.mark.parametrize(
    ("operation", "why"),
    [
        (FileRead(path="a"), "the path is not an absolute one"),
        (FileRead(path="/" + "a" * 5000), "the path is longer than the system takes"),
        (FileRead(path="/a\0b"), "the path has a NUL character"),
        (Execute(argv=("ls",), cwd="/" + "a" * 5000), "the path is longer than the system takes"),
        (Execute(argv=("ls", "\0"), cwd="/"), "NUL character"),
    ],
)
def test_why_something_is_impossible_is_said_as_it_is(operation, why):
    assert why in (scrutiny.impossible(operation) or "")


# Rules and precedence


async def test_a_sample_of_all_combinations_comes_out_as_it_must(tmp_path):
    sample = random.Random(50).sample(cases(), 1200)
    assert await disagreements(tmp_path, sample) == []


async def test_the_oracle_of_the_combinations_sees_all_outcomes():
    outcomes = {case.expected() for case in cases()}
    assert outcomes == {(True, 0), (True, 1), (False, 0), (False, 1)}


async def test_a_refusal_says_which_rule_and_why(root):
    decision = await Permissions("allow-all", deny("file_read")).decide("s", read(root), workspace=root)
    assert (decision.allowed, decision.rule) == (False, "here")
    assert decision.why == "a rule denies it: not here"


async def test_a_deny_rule_beats_every_approval(root, store):
    permissions = Permissions(asker=Screen("allow_always"), store=store)
    assert await permissions.decide("s", read(root), workspace=root)
    permissions.rules = deny("file_read")
    assert not await permissions.decide("s", read(root), workspace=root)


async def test_a_rule_is_about_the_real_file_under_every_name(root, tmp_path):
    (root / "secret").mkdir()
    (root / "secret" / "a.txt").write_text("x")
    (root / "link.txt").symlink_to(root / "secret" / "a.txt")
    (root / "linked").symlink_to(root / "secret")
    (tmp_path / "alias").symlink_to(root)
    (tmp_path / "r.toml").write_text('[[deny]]\noperation = "file_read"\npath = "secret/**"\n' + ALL_FILES)
    permissions = Permissions("allow-all", Rules.load(tmp_path / "r.toml"), Screen())
    names = [
        "secret/a.txt", "link.txt", "linked/a.txt", "secret/../secret/a.txt", "secret/./a.txt", "SECRET/A.TXT",
        "secret//a.txt",
        "linked/../secret/a.txt", "secret/missing", "linked/missing", "secret",
    ]  # fmt: skip
    for path in [*(f"{root}/{name}" for name in names), f"{tmp_path}/alias/secret/a.txt"]:
        assert not await permissions.decide("s", FileRead(path=path), workspace=tmp_path / "alias"), path
    assert await permissions.decide("s", read(root, "secrets/a.txt"), workspace=root)


async def test_an_allow_rule_must_fit_the_real_file_too(root, tmp_path):
    (root / "src").mkdir()
    (root / "src" / "out").symlink_to("/etc")
    (tmp_path / "r.toml").write_text('[[allow]]\noperation = "file_read"\npath = "src/**"\n')
    permissions = Permissions("ask", Rules.load(tmp_path / "r.toml"))
    assert await permissions.decide("s", read(root, "src/a"), workspace=root)
    assert not await permissions.decide("s", read(root, "src/out/hosts"), workspace=root)


# Protected paths


async def test_protected_paths_always_ask_in_every_form(tmp_path, root):
    (tmp_path / "r.toml").write_text(ALL_FILES)
    tried, asked, allowed = await try_protected(root, Rules.load(tmp_path / "r.toml"))
    assert (tried, asked, allowed) == (len(PROTECTED) * 7, len(PROTECTED) * 7, 0)
    assert len(PROTECTED) >= 40


@pytest.mark.parametrize("name", [".env", ".npmrc", ".git/config", ".git/hooks/pre-commit", ".vscode/tasks.json"])
async def test_a_protected_file_is_protected_under_its_other_names(root, name):
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text("secret")
    os.link(root / name, root / "innocent.txt")
    screen = Screen("reject_once")
    permissions = Permissions("allow-all", asker=screen)
    assert not await permissions.decide("s", FileWrite(path=f"{root}/innocent.txt", digest="d"), workspace=root)
    reading = await permissions.decide("s", read(root, "innocent.txt"), workspace=root)
    assert bool(reading) == (name not in SECRET)
    assert name.partition("/")[0] in screen.seen[0].warnings[0]


async def test_an_ordinary_hard_link_is_no_reason_to_ask(root):
    (root / "a").write_text("x")
    os.link(root / "a", root / "b")
    assert await Permissions("allow-reads").decide("s", read(root, "b"), workspace=root)


async def test_our_own_files_are_protected_wherever_they_are(root, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "elsewhere"))
    store = ApprovalStore(root / "kept.json")
    permissions = Permissions("allow-all", asker=Screen("reject_once"), store=store, protected=[root / "log"])
    own = ["config/dragoman/permissions.toml", "elsewhere/dragoman/x", "workspace/kept.json", "workspace/LOG/a"]
    for path in own:
        operation = FileWrite(path=str(tmp_path.resolve() / path), digest="d")
        assert not await permissions.decide("s", operation, workspace=tmp_path), path


async def test_ordinary_files_are_not_protected(root):
    names = [
        "a.py",
        ".gitignore",
        "environment.py",
        "src/env.ts",
        "github/workflows/a.yml",
        "ssh/a",
        ".github/README.md",
        "docs/agents.md",
        "objects/a.py",
        "src/HEAD",
        "refs/config",
    ]
    permissions = Permissions("allow-all")
    for name in names:
        assert await permissions.decide("s", FileWrite(path=f"{root}/{name}", digest="d"), workspace=root), name


async def test_every_git_directory_is_protected_wherever_it_lies_and_however_it_is_linked(root):
    main = repositories(root)
    files = [f"{place}/{name}" for place in GIT_DIRECTORIES for name in CONTROL]
    files += [*LINKS, "new/.git", "GIT~1/config"]
    (main / "innocent").symlink_to(main / "data" / "store")
    for name in [*files, "innocent/config", "innocent/hooks/post-checkout"]:
        for preset in ("allow-edits", "allow-all"):
            screen = Screen("reject_once")
            permissions = Permissions(preset, asker=screen)
            operation = FileWrite(path=f"{main}/{name}", digest="d")
            assert not await permissions.decide("s", operation, workspace=main), name
            assert "Git takes programs" in screen.seen[0].warnings[0]
    for name in ("file", "sub/file", "tree/file", "vendor/nested/file", "data/file"):
        operation = FileWrite(path=f"{main}/{name}", digest="d")
        assert await Permissions("allow-edits").decide("s", operation, workspace=main), name


async def test_a_bare_repository_cannot_be_made_piece_by_piece(root):
    """Whichever piece comes last, it is the one that asks."""
    pieces = ("HEAD", "objects/x", "refs/x", "config")
    for order in itertools.permutations(pieces):
        place = root / "-".join(order).replace("/", "_")
        asked = 0
        for piece in order:
            screen = Screen("reject_once")
            operation = FileWrite(path=f"{place}/{piece}", digest="d")
            if await Permissions("allow-edits", asker=screen).decide("s", operation, workspace=root):
                (place / piece).parent.mkdir(parents=True, exist_ok=True)
                (place / piece).write_text("ref: refs/heads/main\n" if piece == "HEAD" else "")
            asked += len(screen.seen)
        assert asked >= 1, order
        assert not is_git_directory(str(place)), order


# Asking


async def test_a_question_shows_what_will_be_done(root):
    screen = Screen("reject_once")
    permissions = Permissions(asker=screen)
    operations = [
        Execute(argv=("sh", "-c", "x\u202e"), cwd=str(root), env=(("CI", "1"),)),
        FileWrite(path=f"{root}/a\nb", digest="d", creates=True),
        McpTool(server="git\x1bhub", tool="drop", arguments={"repo": "a\u200bb"}),
        Execute(argv=("\u0441at", "x"), cwd=str(root)),
    ]
    for operation in operations:
        await permissions.decide("s", operation, workspace=root, detail="-old\n+new\x1b[2J")
    command, write, call, odd = screen.seen
    assert command.text.splitlines() == ["sh -c 'x\\u{202e}'", "with CI=1", f"in {root}"]
    assert write.text.splitlines() == [f"{root}/a\\u{{a}}b", "a new file"]
    assert write.detail == "-old\n+new\\u{1b}[2J"
    assert call.text == 'drop of git\\u{1b}hub\n{"repo":"a\\u{200b}b"}'
    assert "CYRILLIC" in odd.warnings[0]


async def test_what_was_not_shown_whole_is_allowed_once_at_most(root, store):
    screen = Screen("allow_always")
    permissions = Permissions(asker=screen, store=store)
    operation = Execute(argv=("echo", "x" * 100_000), cwd=str(root))
    assert not await permissions.decide("s", operation, workspace=root)
    assert not screen.seen[0].is_whole
    assert [option.id for option in screen.seen[0].options] == ["allow_once", "reject_once", "reject_turn"]


async def test_one_question_of_a_session_is_shown_at_a_time_and_few_wait():
    most, asked, unasked, allowed = await flood(2000)
    assert (most, asked, unasked, allowed) == (1, 33, 1967, 0)


async def test_questions_of_different_sessions_are_shown_side_by_side(root):
    both = asyncio.Barrier(2)

    async def asker(question):
        await both.wait()
        return "allow_once"

    permissions = Permissions(asker=asker)
    async with asyncio.timeout(PATIENCE):
        one, two = await asyncio.gather(
            permissions.decide("one", read(root), workspace=root),
            permissions.decide("two", read(root), workspace=root),
        )
    assert one.allowed
    assert two.allowed


async def test_an_agent_that_invents_sessions_cannot_flood_all_screens():
    release = asyncio.Event()

    async def asker(question):
        await release.wait()
        return "agent_1"

    permissions = Permissions(asker=asker)
    tasks = [asyncio.create_task(permissions.answer(request(f"s{number}"))) for number in range(400)]
    async with asyncio.timeout(PATIENCE):
        for _, too_many in zip(range(400 - 256), asyncio.as_completed(tasks), strict=False):
            await too_many
    release.set()
    responses = await asyncio.gather(*tasks)
    assert sum(permits(response, request()) for response in responses) == 256


async def test_a_question_nobody_waits_for_any_more_is_taken_away_and_asked_anew(root):
    shown, gone = asyncio.Event(), asyncio.Event()

    async def asker(question):
        if shown.is_set():
            return "allow_once"
        shown.set()
        try:
            await asyncio.Event().wait()
        finally:
            gone.set()

    permissions = Permissions(asker=asker)
    task = asyncio.create_task(permissions.decide("s", read(root), workspace=root))
    async with asyncio.timeout(PATIENCE):
        await shown.wait()
        task.cancel()
        await gone.wait()
        assert await permissions.decide("s", read(root), workspace=root)
    assert task.cancelled()


async def test_cancelling_a_session_answers_its_questions_cancelled(root):
    shown = asyncio.Event()

    async def asker(question):
        shown.set()
        await asyncio.Event().wait()

    permissions = Permissions(asker=asker)
    deciding = asyncio.create_task(permissions.decide("s", read(root), workspace=root))
    answering = asyncio.create_task(permissions.answer(request()))
    async with asyncio.timeout(PATIENCE):
        await shown.wait()
        await asyncio.sleep(0)
        permissions.cancel("s")
        decision, response = await deciding, await answering
    assert (decision.allowed, decision.cancelled) == (False, True)
    assert isinstance(response.outcome, s.CancelledPermissionOutcome)


async def test_denying_the_rest_of_a_turn_denies_all_that_waits_and_all_that_comes(root):
    screen = Screen("reject_turn")
    permissions = Permissions("allow-reads", asker=screen)
    deletions = [FileDelete(path=f"{root}/{number}") for number in range(10)]
    decisions = await asyncio.gather(*(permissions.decide("s", each, workspace=root) for each in deletions))
    assert not any(decisions)
    assert not any(decision.cancelled for decision in decisions)
    assert not await permissions.decide("s", read(root), workspace=root)
    assert not permits(await permissions.answer(request()), request())
    assert len(screen.seen) == 1
    assert await permissions.decide("another", read(root), workspace=root)
    permissions.begin_turn("s")
    assert await permissions.decide("s", read(root), workspace=root)


async def test_an_answer_that_comes_before_it_can_have_been_read_does_not_count(root):
    times = []

    async def asker(question):
        times.append(question)
        if len(times) == 2:
            await asyncio.sleep(0.06)
        return "allow_once"

    permissions = Permissions(asker=asker, arming=0.05)
    assert await permissions.decide("s", read(root), workspace=root)
    assert len(times) == 2
    assert not await Permissions(asker=Screen(), arming=0.05).decide("s", read(root), workspace=root)
    hasty_no = Screen("reject_once")
    assert not await Permissions(asker=hasty_no, arming=5).decide("s", read(root), workspace=root)
    assert len(hasty_no.seen) == 1


# Failing


@pytest.mark.parametrize("attempt", [by_decide, by_answer])
async def test_without_a_fault_a_yes_is_a_yes(attempt):
    assert await attempt(Permissions(asker=Screen(YES[attempt])))


async def test_whatever_fails_nothing_is_allowed(tmp_path):
    tried, allowed = await faults(tmp_path)
    assert allowed == []
    assert tried == 2 * (len(FAULTS) + len(DISK_FAULTS)) + 1
    assert tried >= 60


@pytest.mark.parametrize("attempt", [by_decide, by_answer])
async def test_a_yes_that_came_too_late_is_never_written_down_as_one(attempt):
    written = []

    async def asker(question):
        permissions.preset = "deny"
        return YES[attempt]

    async def audit(event):
        written.append(event["decision"])

    permissions = Permissions(asker=asker, audit=audit)
    assert not await attempt(permissions)
    assert written == ["deny"]


async def test_a_disk_that_fails_while_an_approval_is_kept_leaves_it_for_this_once(root, tmp_path):
    (tmp_path / "file").write_text("")
    screen = Screen("allow_always")
    permissions = Permissions(asker=screen, store=ApprovalStore(tmp_path / "file" / "approvals.json"))
    decision = await permissions.decide("s", read(root), workspace=root)
    assert (decision.allowed, decision.scope) == (True, "once")
    await permissions.decide("s", read(root), workspace=root)
    assert len(screen.seen) == 2


async def test_every_decision_is_written_down_before_it_counts(root, tmp_path, store):
    path = tmp_path / "audit.jsonl"
    with AuditLog(path) as log:
        permissions = Permissions(asker=Screen("allow_session"), audit=log.record, agent="claude", store=store)
        command = Execute(
            argv=("deploy", "--token", "t0p-secret"), cwd=str(root), env=(("CI", "1"), ("API_KEY", "k 1"))
        )
        await permissions.decide("s1", command, workspace=root)
        permissions.preset = "deny"
        await permissions.decide("s1", FileWrite(path=f"{root}/a", digest="d"), workspace=root)
        await permissions.answer(request("s1", title="Read\n"))
    _, allowed, denied, claimed = (read_line(line).fields for line in path.read_bytes().splitlines(keepends=True))
    assert (
        allowed | {"session": "s1", "agent": "claude", "operation": "terminal_execute", "cwd": str(root)} == allowed
    )
    assert allowed["fingerprint"] == command.fingerprint()
    assert allowed["argv"] == ["deploy", "--token", "[redacted]"]
    assert allowed["env"] == {"CI": "1", "API_KEY": "[redacted]"}
    assert (allowed["decision"], allowed["scope"], allowed["asked"]) == ("allow", "session", True)
    assert (denied["decision"], denied["why"], denied["digest"]) == ("deny", "the preset deny", "d")
    assert (claimed["operation"], claimed["claims"]["title"]) == ("claim", "Read\n")
    assert verify(path) == []

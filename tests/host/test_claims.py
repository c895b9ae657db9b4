"""What a preset answers of an agent's own words, and what a yes to them covers: exactly what was shown, once."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from torture.errands import answers, hosting
from torture.host_permissions import Screen, permits, request

from dragoman import schema as s
from dragoman.host import Host
from dragoman.host.operations import Execute, FileWrite, NetworkAccess
from dragoman.host.permissions import Permissions, Question, Rules
from dragoman.host.permissions.claims import digest

OLD, NEW = "one\ntwo\n", "one\n2\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    project = tmp_path.resolve() / "project"
    project.mkdir()
    (project / "a.txt").write_text(OLD)
    return project


def edit(path: object, old: str | None = OLD, new: str = NEW, **more: Any) -> s.RequestPermissionRequest:
    change = s.Diff(path=str(path), old_text=old, new_text=new)
    return request(**{"title": "Edit", "kind": "edit", "content": [change], **more})


def run(command: object, **more: Any) -> s.RequestPermissionRequest:
    return request(title="Bash", kind="execute", raw_input={"command": command, **more})


# Presets


async def answered(preset: Any, params: s.RequestPermissionRequest, root: Path, **more: Any) -> tuple[bool, int]:
    """Whether an agent is told yes, and how many questions that took, each answered with no."""
    screen = Screen("agent_3")
    response = await Permissions(preset, asker=screen, **more).answer(params, workspace=root)
    return permits(response, params), len(screen.seen)


def outside(root: Path) -> dict[str, s.RequestPermissionRequest]:
    """Questions that show a harmless change and name, somewhere, more than that."""
    a, evil = root / "a.txt", "/etc/passwd"
    (root / "way-out").symlink_to("/etc")
    (root / ".env").write_text("KEY=1")
    os.link(root / ".env", root / "innocent.txt")
    located = [s.ToolCallLocation(path=evil)]
    inputs: dict[str, Any] = {
        "input path": {"file_path": evil},
        "input relative": {"path": "../../etc/passwd"},
        "input home": {"target_file": "~/.bashrc"},
        "input uri": {"uri": "file:///etc/passwd"},
        "input odd name": {"thing": evil},
        "input nested": {"edits": [{"a": [{"filePath": evil}]}]},
        "input camel": {"newFilePath": evil},
        "input protected": {"path": ".git/hooks/pre-commit"},
        "input command": {"file_path": str(a), "command": "rm -rf /"},
        "input url": {"url": "https://example.com"},
        "input address": {"where": "https://example.com"},
        "input patch": {"patch": "--- a/a.txt\n+++ /etc/passwd\n@@ -1 +1 @@\n-a\n+b\n"},
        "input codex patch": {"input": "*** Begin Patch\n*** Update File: ../../etc/passwd\n@@\n"},
        "input words": "rm -rf /",
        "input json": '{"file_path": "/etc/passwd"}',
        "input json arguments": {"arguments": '{"path": "../../etc/passwd"}'},
        "input new name": {"new_name": evil},
        "input text of a patch": {"file_text": "*** Update File: /etc/passwd\n"},
        "input too deep": {"a": _deep(30)},
        "input too much": {"a": list(range(2000))},
    }
    found = {name: edit(a, raw_input=value) for name, value in inputs.items()}
    diffs = [s.Diff(path=str(a), old_text=OLD, new_text=NEW), s.Diff(path=evil, old_text="", new_text="x")]
    return found | {
        "another location": edit(a, locations=located),
        "another change": edit(a, content=diffs),
        "a link": edit(root / "way-out" / "passwd"),
        "dots": edit(f"{root}/../project2/a.txt"),
        "protected": edit(root / ".env"),
        "protected twin": edit(root / "innocent.txt"),
        "agents' instructions": edit(root / "AGENTS.md", None),
        "executable": request(title="x", kind="execute", raw_input={"command": "ls"}),
        "a terminal": edit(a, content=[*diffs[:1], s.Terminal(terminal_id="t")]),
        "deletes": edit(a, kind="delete"),
        "moves": edit(a, kind="move"),
        "fetches": edit(a, kind="fetch"),
        "reads a change": edit(a, kind="read"),
        "names nothing": request(title="Edit", kind="edit"),
        "more than is shown": edit(a, locations=[s.ToolCallLocation(path=f"{root}/{n}") for n in range(30)]),
        "shown and named": edit(a, None, f"see {evil}\n", raw_input={"thing": evil}),
        "no once": edit(a, options=[s.PermissionOption(option_id="y", name="Always", kind="allow_always")]),
    }


def _deep(depth: int) -> Any:
    return {"a": _deep(depth - 1)} if depth else "/etc/passwd"


async def test_no_question_that_names_more_than_a_preset_covers_is_answered_by_it(root: Path) -> None:
    questions = outside(root)
    outcomes = {name: await answered("allow-edits", params, root) for name, params in questions.items()}
    assert outcomes == dict.fromkeys(questions, (False, 1))


async def test_a_question_about_an_edit_or_a_read_is_answered_as_the_claim_it_is(root: Path) -> None:
    written: list[Any] = []

    async def audit(event: Any) -> None:
        written.append(event)

    permissions = Permissions("allow-edits", audit=audit)
    location = [s.ToolCallLocation(path=f"{root}/a.txt")]
    text = "/* not a path */\nx"
    for params in (
        edit(root / "a.txt"),
        edit("a.txt"),
        edit(root / "new.css", None, text, raw_input={"file_path": f"{root}/new.css", "content": text}),
        edit(root / "a.txt", raw_input={"command": "str_replace", "path": "a.txt", "old_str": OLD, "new_str": NEW}),
        edit(root / "new.css", None, text, raw_input={"path": "new.css", "file_text": text}),
        edit(root / "a.txt", raw_input={"arguments": '{"path": "a.txt", "old": "two", "new": "2"}'}),
        request(title="Edit", kind="edit", locations=location),
        request(title="Read", kind="read", locations=location, raw_input={"offset": 3}),
        request(title="Look", kind="search", raw_input={"pattern": "../x|/etc", "path": str(root)}),
    ):
        assert permits(await permissions.answer(params, workspace=root), params), params
    assert {event["why"] for event in written} == {"the preset allow-edits, on the agent's word"}
    assert written[0]["claims"]["changes"] == [{"path": f"{root}/a.txt", "digest": digest(NEW)}]


async def test_a_deny_rule_forbids_what_an_agent_says_it_does_under_every_preset(
    root: Path, tmp_path: Path
) -> None:
    file = tmp_path / "rules.toml"
    file.write_text(
        '[[deny]]\noperation = "file_write"\npath = "**/*.txt"\n'
        '[[deny]]\noperation = "terminal_execute"\nargv = ["terraform", "destroy"]\n'
        '[[ask]]\noperation = "file_read"\npath = "b.md"\n'
        '[[allow]]\noperation = "terminal_execute"\nargv = ["npm", "test"]\n'
    )
    rules = Rules.load(file)
    for preset in ("ask", "allow-edits", "allow-all"):
        assert await answered(preset, edit(root / "a.txt"), root, rules=rules) == (False, 0)
        assert await answered(preset, run(["terraform", "destroy"]), root, rules=rules) == (False, 0)
        if preset == "allow-all":
            assert await answered(preset, run(["npm", "test"]), root, rules=rules) == (True, 0)
        read = request(kind="read", locations=[s.ToolCallLocation(path=f"{root}/b.md")])
        assert await answered(preset, read, root, rules=rules) == (False, 1)


async def test_allow_all_means_all_but_for_rules_and_protected_paths(root: Path) -> None:
    permissions = Permissions("allow-all")
    for operation in (
        Execute(argv=("ls",), cwd=str(root), env=(("LD_PRELOAD", "x"), ("SHELL", "/bin/bash")), interactive=True),
        Execute(argv=("ls",), cwd="/", dangerous_env=("X",)),
        NetworkAccess(url="http://2130706433/"),
    ):
        assert await permissions.decide("s", operation, workspace=root)
    assert not await permissions.decide("s", FileWrite(path=f"{root}/.env", digest="d"), workspace=root)
    for params in (edit(root / ".env"), edit("/etc/passwd"), run("env -i sh", env={"LD_PRELOAD": "x"})):
        assert permits(await permissions.answer(params, workspace=root), params)


# A yes covers one operation


class Person:
    """Says yes to what the agent asks, once each, and no to what the host asks."""

    def __init__(self) -> None:
        self.by_host = 0

    async def __call__(self, question: Question) -> str:
        if question.operation is None:
            return next(option.id for option in question.options if option.allows)
        self.by_host += 1
        return "reject_once"


def writing(path: object, new: str = NEW, old: str | None = OLD) -> tuple[FileWrite, s.Diff]:
    operation = FileWrite(path=str(path), digest=digest(new), creates=old is None)
    return operation, s.Diff(path=str(path), old_text=old, new_text=new)


async def attempt(
    permissions: Permissions, operation: Any, detail: s.Diff | str, root: Path, session: str = "s"
) -> bool:
    return bool(await permissions.decide(session, operation, workspace=root, detail=detail))


async def approved(root: Path, *questions: s.RequestPermissionRequest, **more: Any) -> Permissions:
    permissions = Permissions(asker=Person(), **more)
    for params in questions:
        assert permits(await permissions.answer(params, workspace=root), params)
    return permissions


async def test_a_yes_is_spent_by_the_one_write_that_was_shown(root: Path) -> None:
    permissions = await approved(root, edit(root / "a.txt"))
    assert await attempt(permissions, *writing(root / "a.txt"), root)
    assert not await attempt(permissions, *writing(root / "a.txt"), root)
    for shown, done in (
        (edit("a.txt", "two", "2"), writing(root / "a.txt")),  # a part of it, told by a relative path
        (edit(root / "n.txt", None, "x"), writing(root / "n.txt", "x", None)),
        (edit(root / "n.txt", "", "x"), writing(root / "n.txt", "x", "")),
        (request(raw_input={"path": "n.txt", "content": "x"}), writing(root / "n.txt", "x", None)),
    ):
        assert await attempt(await approved(root, shown), *done, root)


async def test_a_yes_to_a_change_covers_no_other_write(root: Path) -> None:
    a, b = root / "a.txt", root / "b.txt"
    (root / "link.txt").symlink_to(b)
    for shown, done in (
        (edit(a), writing(a, NEW + "more")),
        (edit(a), writing(a, NEW, OLD + "changed meanwhile\n")),
        (edit(a), writing(a, NEW, None)),
        (edit(a), writing(b)),
        (edit(a), writing(root / "A.txt")),
        (edit(a, None, NEW), writing(a)),  # a new file was shown, and there is one
        (edit(a, "two", "2"), writing(a, "1\n2\n1\n2\n", "1\ntwo\n1\ntwo\n")),  # which of the two?
        (edit(a, "two", "2"), writing(a, "ONE\n2\n")),
        (edit(root / "link.txt", OLD, NEW), writing(a)),
        (edit(a), (FileWrite(path=str(a), digest=digest(NEW)), "")),  # what it changes is not known
        (edit(a, kind="read", content=None), writing(a)),
        (run("true"), writing(a)),
        (edit(root / ".env", None, "x", kind="other", content=None), writing(root / ".env", "x", None)),
    ):
        permissions = await approved(root, shown)
        assert not await attempt(permissions, *done, root), (shown.tool_call, done)


async def test_a_yes_covers_nothing_later_elsewhere_or_after_a_no(root: Path) -> None:
    done = writing(root / "a.txt")
    assert not await attempt(await approved(root, edit(root / "a.txt"), covering=0.0), *done, root)
    permissions = await approved(root, edit(root / "a.txt"))
    assert not await attempt(permissions, *done, root, session="another")
    for end in (permissions.begin_turn, permissions.cancel, permissions.close_session):
        permissions = await approved(root, edit(root / "a.txt"))
        getattr(permissions, end.__name__)("s")
        permissions.open_session("s")
        assert not await attempt(permissions, *done, root), end
    permissions = await approved(root, edit(root / "a.txt"))
    permissions.deny_turn("s")
    assert not await attempt(permissions, *done, root)
    permissions = await approved(root, edit(root / "a.txt"))
    permissions.preset = "deny"
    assert not await attempt(permissions, *done, root)
    by_preset = Permissions("allow-edits", asker=Person())
    assert permits(await by_preset.answer(edit(root / "a.txt"), workspace=root), edit(root / "a.txt"))
    by_preset.preset = "ask"  # nobody saw what the preset answered
    assert not await attempt(by_preset, *done, root)
    denied = Permissions(asker=Screen("agent_3"))
    await denied.answer(edit(root / "a.txt"), workspace=root)
    assert not await attempt(denied, *done, root)


async def test_a_protected_path_is_covered_only_if_the_question_warned_of_it(root: Path) -> None:
    screen = Screen("agent_2")
    permissions = Permissions(asker=screen)
    await permissions.answer(edit(root / ".env", None, "x"), workspace=root)
    assert any(".env is protected" in warning for warning in screen.seen[0].warnings)
    assert await attempt(permissions, *writing(root / ".env", "x", None), root)
    await permissions.answer(edit(root / "plain", None, "x"), workspace=root)
    os.link(root / "a.txt", root / "plain")
    (root / "a.txt").rename(root / ".npmrc")  # now it is another name of what is protected
    screen.choice = "reject_once"
    assert not await attempt(permissions, *writing(root / "plain", "x", ""), root)


def executing(root: Path, *argv: str, **more: Any) -> Execute:
    return Execute(**{"argv": argv, "cwd": str(root), **more})


QUIET = (("NO_COLOR", "1"), ("TERM", "dumb"), ("GIT_TERMINAL_PROMPT", "0"), ("SHELL", "/bin/bash"))


async def test_a_yes_is_spent_by_the_one_command_that_was_named(root: Path) -> None:
    line = "make test | tail"
    for shown, done in (
        (run(line), executing(root, "/bin/bash", "-c", line, env=QUIET)),
        (run(line), executing(root, "/bin/sh", "-c", line, shell=True)),
        (run(line), executing(root, "/bin/bash", "-c", f"cd {root} && {line}")),
        (run("make test"), executing(root, "make", "test")),
        (run(["make", "test"]), executing(root, "make", "test")),
        (run("make", args=["test"], env={"V": "1"}), executing(root, "make", "test", env=(("V", "1"),))),
        (run(["bash", "-lc", line]), executing(root, "bash", "-lc", line)),
    ):
        permissions = await approved(root, shown)
        assert await attempt(permissions, done, "", root), (shown.tool_call, done)
        assert not await attempt(permissions, done, "", root)


def unlike(root: Path) -> Sequence[tuple[s.RequestPermissionRequest, Execute]]:
    line, sub = "make test", root / "sub"
    sub.mkdir()
    return [
        (run(line), executing(root, "make", "test", "x")),
        (run(line), executing(root, "make")),
        (run(line), executing(root, "./make", "test")),
        (run(line), executing(root, "/bin/sh", "-c", f"{line}; rm -rf /")),
        (run(line), executing(root, "/bin/sh", "-c", f"cd /etc && {line}")),
        (run(line), executing(root, "/bin/sh", "-c", f"cd {sub} && {line}")),
        (run(line), executing(root, "/bin/sh", "-c", line, "x")),
        (run(line), executing(root, f"{root}/bash", "-c", line)),
        (run(line), executing(root, "python3", "-c", line)),
        (run(line), executing(sub, "make", "test")),
        (run(line, cwd="sub"), executing(root, "make", "test")),
        (run(line), executing(root, "make", "test", interactive=True)),
        (run(line), executing(root, "make", "test", env=(("FOO", "1"),))),
        (run(line), executing(root, "make", "test", env=(("LD_PRELOAD", "x.so"),))),
        (run(line), executing(root, "make", "test", env=(("SHELL", f"{root}/bash"),))),
        (run(line), executing(root, "make", "test", env=(("PAGER", "sh"),))),
        (run(line, env={"V": "1"}), executing(root, "make", "test", env=(("V", "2"),))),
        (run(line, env={"V": "1"}), executing(root, "make", "test")),
        (run("a=1 make"), executing(root, "a=1", "make")),
        (run("echo *"), executing(root, "echo", "*")),
        (run("echo $HOME"), executing(root, "echo", "$HOME")),
        (request(title=line, kind="execute"), executing(root, "make", "test")),
    ]


async def test_a_yes_to_a_command_covers_no_other_one(root: Path) -> None:
    for shown, done in unlike(root):
        permissions = await approved(root, shown)
        assert not await attempt(permissions, done, "", root), (shown.tool_call, done)


# With a host, real files and an agent in a process of its own


def asking(path: str, old: str | None, new: str) -> list[Any]:
    kinds = ("allow_once", "reject_once")
    change = {"type": "diff", "path": path, "oldText": old, "newText": new}
    call = {"toolCallId": "c", "title": "Edit", "kind": "edit", "content": [change]}
    options = [{"optionId": kind, "name": kind, "kind": kind} for kind in kinds]
    return ["session/request_permission", {"toolCall": call, "options": options}]


def put(path: str, content: str) -> list[Any]:
    return ["fs/write_text_file", {"path": path, "content": content}]


async def test_an_agent_that_asks_and_then_writes_is_asked_about_once(root: Path, tmp_path: Path) -> None:
    person, a = Person(), f"{root}/a.txt"
    host = Host(asker=person, state=tmp_path / "state")
    async with hosting(host, root) as session:
        orders = [asking(a, OLD, NEW), put(a, NEW), put(a, "again"), put(f"{root}/b.txt", NEW)]
        allowed, written, again, elsewhere = await answers(session, orders)
        assert "result" in allowed and "result" in written
        assert "error" in again and "error" in elsewhere
        other = await host.new_session(root)
        await answers(session, [asking(a, NEW, "three")])
        (refused,) = await answers(other, [put(a, "three")])
        (too_late,) = await answers(session, [put(a, "three")])
    assert "error" in refused and "error" in too_late
    assert (person.by_host, (root / "a.txt").read_text()) == (4, NEW)


async def test_a_name_that_leads_elsewhere_after_the_question_is_not_covered(root: Path, tmp_path: Path) -> None:
    """The agent swaps the file while the user reads the question, or afterwards."""
    (root / "victim").write_text(OLD)
    a = root / "a.txt"

    class Swapping(Person):
        async def __call__(self, question: Question) -> str:
            if question.operation is None and not a.is_symlink():
                a.unlink()
                a.symlink_to(root / "victim")
            return await super().__call__(question)

    person = Swapping()
    async with hosting(Host(asker=person, state=tmp_path / "state"), root) as session:
        _, written = await answers(session, [asking(str(a), OLD, NEW), put(str(a), NEW)])
    assert "error" in written
    assert (root / "victim").read_text() == OLD

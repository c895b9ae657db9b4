"""How Claude's tools are shown, how their inputs are read while they stream, and what the settings' rules mean."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dragoman.schema as s
from dragoman.bridges.claude.lent.rules import matching, read_rules
from dragoman.bridges.claude.messages.markers import printed, visible
from dragoman.bridges.claude.messages.updates import MessageTranslator
from dragoman.bridges.claude.tools.outcome import fenced, outcome
from dragoman.bridges.claude.tools.partial import partial_object
from dragoman.bridges.claude.tools.plans import Tasks
from dragoman.bridges.claude.tools.shown import shown

CWD = "/work"
WILD = ["command", "file_path", "questions", "findings", "-A"]


@pytest.mark.parametrize(
    ("name", "told", "title", "kind", "places"),
    [
        ("Agent", {"description": "Look"}, "Look", "think", []),
        ("Task", {}, "Task", "think", []),
        ("Bash", {"command": "ls -l"}, "ls -l", "execute", []),
        ("Bash", {}, "Terminal", "execute", []),
        ("Read", {"file_path": "/work/a.py"}, "Read a.py", "read", [("/work/a.py", 1)]),
        ("Read", {"file_path": "/b", "offset": 5, "limit": 10}, "Read /b (5 - 14)", "read", [("/b", 5)]),
        ("Read", {"file_path": "/b", "offset": 5}, "Read /b (from line 5)", "read", [("/b", 5)]),
        ("Write", {"file_path": "/work/a"}, "Write a", "edit", [("/work/a", None)]),
        ("Edit", {"file_path": "/work/a"}, "Edit a", "edit", [("/work/a", None)]),
        ("NotebookEdit", {"notebook_path": "/work/n"}, "Edit Notebook n", "edit", [("/work/n", None)]),
        ("Glob", {"path": "/work/src", "pattern": "*.py"}, "Find `src` `*.py`", "search", [("/work/src", None)]),
        ("Grep", {"pattern": "x", "-i": True, "-A": 2, "path": "/work/s"}, 'grep -i -A 2 "x" s', "search", []),
        ("WebFetch", {"url": "https://a.b"}, "Fetch https://a.b", "fetch", []),
        ("WebSearch", {"query": "q", "allowed_domains": ["a.b"]}, '"q" (allowed: a.b)', "fetch", []),
        ("TodoWrite", {}, "Update the plan", "think", []),
        ("ExitPlanMode", {"plan": "p"}, "Ready to code?", "switch_mode", []),
        ("AskUserQuestion", {"questions": [{"question": "Which?"}]}, "Which?", "other", []),
        ("Skill", {"skill": "pdf"}, "Load skill: pdf", "other", []),
        ("ReportFindings", {"findings": [{"file": "a", "line": 1}]}, "Report 1 finding", "think", []),
        ("mcp__acp__Edit", {"file_path": "/work/a"}, "Edit a", "edit", [("/work/a", None)]),
        ("mcp__other__tool", {}, "mcp__other__tool", "other", []),
    ],
)
def test_a_tool_has_its_title_its_kind_and_its_places(
    name: str, told: dict[str, Any], title: str, kind: str, places: list[tuple[str, int | None]]
) -> None:
    look = shown(name, told, CWD)
    assert (look.title, look.kind, [(p.path, p.line) for p in look.locations]) == (title, kind, places)


@pytest.mark.parametrize("name", ["Bash", "Read", "Edit", "Grep", "AskUserQuestion", "ReportFindings", "WebSearch"])
@given(wild=st.dictionaries(st.sampled_from(WILD), st.integers()))
def test_an_input_that_is_not_what_it_should_be_is_shown_all_the_same(name: str, wild: dict[str, Any]) -> None:
    assert shown(name, wild, CWD).title


@given(
    st.dictionaries(st.text(max_size=5), st.text(max_size=9) | st.integers() | st.lists(st.booleans()), max_size=4)
)
def test_a_member_of_a_streamed_input_counts_once_it_is_whole(members: dict[str, Any]) -> None:
    words = json.dumps(members)
    assert partial_object(words) == members
    for end in range(len(words)):
        part = partial_object(words[:end])
        assert list(part.items()) == list(members.items())[: len(part)]


def test_a_tool_s_error_is_in_a_fence_that_it_does_not_end_itself() -> None:
    block = {"content": "<tool_use_error>```\nno</tool_use_error>", "is_error": True}
    ended = outcome("Glob", {}, block, None, CWD)
    assert ended.failed and ended.content == [s.Content(content=s.TextContent(text="````\n```\nno\n````"))]
    assert fenced("x") == "```\nx\n```"


def test_images_and_pages_that_a_tool_gives_are_shown_as_such() -> None:
    picture = {"type": "image", "source": {"type": "base64", "data": "AAAA", "media_type": "image/png"}}
    image = s.Content(content=s.ImageContent(data="AAAA", mime_type="image/png"))
    assert outcome("Read", {}, {"content": [picture]}, None, CWD).content == [image]
    hits = {"results": [{"content": [{"title": "A", "url": "https://a"}, {"title": "B", "url": "https://b"}]}]}
    found = outcome("WebSearch", {}, {"content": "text"}, hits, CWD).content
    assert found == [s.Content(content=s.TextContent(text="A (https://a)\nB (https://b)"))]


RULES = read_rules(
    {
        "rules": [
            {"behavior": "allow", "rule": "Bash(npm test:*)", "source": "userSettings"},
            {"behavior": "allow", "rule": "Bash(git status)", "source": "userSettings"},
            {"behavior": "allow", "rule": "Edit(src/**)", "source": "userSettings"},
            {"behavior": "deny", "rule": "Bash(rm:*)", "source": "userSettings"},
            {"behavior": "deny", "rule": "Read(.env)", "source": "userSettings"},
            {"behavior": "deny", "rule": "Read(//etc/**)", "source": "userSettings"},
            {"behavior": "deny", "rule": "Edit", "source": "cliArg"},
        ]
    }
)


@pytest.mark.parametrize(
    ("command", "allowed", "denied"),
    [
        ("npm test", True, False),
        ("npm test -- --watch", True, False),
        ("npm testing", False, False),
        ("git status && npm test a", True, False),
        ("npm test && curl evil", False, False),
        ("npm test; rm -rf /", False, True),
        ("npm test $(rm x)", False, True),
        ("npm test > out", False, False),
        ("npm test `curl evil`", False, False),
        ("git status -s", False, False),
    ],
)
def test_a_rule_for_commands_allows_all_of_a_command_and_forbids_any_part(
    command: str, allowed: bool, denied: bool
) -> None:
    told = {"command": command}
    assert matching(RULES, "allow", "Bash", told, CWD) is allowed
    assert matching(RULES, "deny", "Bash", told, CWD) is denied


@pytest.mark.parametrize(
    ("tool", "path", "behaviour", "fits"),
    [
        ("Edit", "/work/src/a/b.py", "allow", True),
        ("Write", "src/new.py", "allow", True),
        ("Edit", "/work/src/../secret", "allow", False),
        ("Read", "/work/deep/.env", "deny", True),
        ("Read", "/etc/passwd", "deny", True),
        ("Read", "/work/etc/x", "deny", False),
        ("Edit", "/work/a", "deny", False),  # the rule that makes room for our tools
    ],
)
def test_a_rule_for_files_is_about_places(tool: str, path: str, behaviour: str, fits: bool) -> None:
    assert matching(RULES, behaviour, tool, {"file_path": path}, CWD) is fits


def test_marks_of_the_program_are_not_shown() -> None:
    assert visible("<command-name>/greet</command-name>\n<command-args>Ada</command-args>") == "/greet Ada"
    assert visible("hello <system-reminder>secret</system-reminder>") == "hello"
    assert visible("a < b") == "a < b"
    assert printed("<local-command-stdout>\x1b[1mCompacted\x1b[0m</local-command-stdout>") == "Compacted"


def test_a_whole_message_adds_only_what_was_not_streamed() -> None:
    def stream(event: dict[str, Any]) -> list[Any]:
        return list(translator.updates({"type": "stream_event", "event": event, "parent_tool_use_id": None}))

    translator = MessageTranslator(CWD)
    stream({"type": "message_start", "message": {"id": "m"}})
    delta = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hel"}}
    assert [u.content.text for u in stream(delta)] == ["Hel"]
    whole = {
        "type": "assistant",
        "uuid": "u",
        "message": {"id": "m", "content": [{"type": "text", "text": "Hello"}]},
    }
    assert [u.content.text for u in translator.updates(whole)] == ["lo"]
    assert not list(translator.updates(whole))  # which is said again after a compaction


def test_a_broken_connection_is_told_to_clients_that_have_notices_and_to_no_other() -> None:
    translator = MessageTranslator(CWD)
    retry = {"type": "system", "subtype": "api_retry", "attempt": 1, "max_retries": 2, "error_status": None}
    assert not list(translator.updates(retry))
    translator.system.notices = True
    (notice,) = translator.updates(retry)
    assert isinstance(notice, s.Notice) and "the connection broke" in notice.title


def test_tasks_become_the_plan_from_the_texts_of_their_results_too() -> None:
    tasks = Tasks()
    tasks.done("TaskCreate", {"subject": "Read"}, "Task #7 created successfully: Read")
    plan = tasks.done("TaskUpdate", {"taskId": "7", "status": "completed"}, None)
    assert plan and [(entry.content, entry.status) for entry in plan.entries] == [("Read", "completed")]
    plan = tasks.done("TaskList", {}, [{"type": "text", "text": "#7 [completed] Read\n#8 [pending] Write"}])
    assert plan and [entry.content for entry in plan.entries] == ["Read", "Write"]


def test_a_rate_limit_is_told_with_the_usage() -> None:
    (update,) = MessageTranslator(CWD).updates(
        {"type": "rate_limit_event", "rate_limit_info": {"status": "allowed"}}
    )
    assert isinstance(update, s.UsageUpdate) and update.meta == {"_claude/rateLimit": {"status": "allowed"}}

"""Our types against the facts of the official schema, both ways: every difference has a name."""

import copy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw
from parity import EXCUSES, FACTS, OURS, differences, load

from dragoman import schema

ROOT = Path(__file__).parents[2]
SHARED = ROOT.parent / "shared" / "schema"


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_our_types_say_what_the_schema_says(version: str) -> None:
    assert differences(version, load(version)) == []


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_every_word_of_explanation_is_needed(version: str) -> None:
    facts, ours, excuses = load(version), OURS[version], EXCUSES[version]
    assert set(excuses.not_ours) <= set(facts) and not set(excuses.not_ours) & set(ours)
    assert set(excuses.not_theirs) <= set(ours) and not set(excuses.not_theirs) & set(facts)
    assert all(tag in [arm.get("tag") for arm in facts[union]["arms"]] for union, tag in excuses.arms)
    assert all(facts[name]["kind"] == "union" for name in excuses.one_struct | excuses.closed)


def plant(version: str, path: str, value: Any) -> list[str]:
    """The differences once a fact at `path` is another; None takes it away."""
    facts = copy.deepcopy(load(version))
    *parents, last = path.split("/")
    node = facts
    for key in parents:
        node = node[key]
    if value is None:
        del node[last]
    else:
        node[last] = value
    return differences(version, facts)


NEW = {"type": "string", "required": False, "nullable": True, "mark": "E"}
ALIAS = {"kind": "alias", "type": "string"}


@pytest.mark.parametrize(
    ("path", "value", "found"),
    [
        ("ToolCall/fields/speed", NEW, "ToolCall.speed: missing field"),
        ("ToolCall/fields/rawOutput", None, "ToolCall.rawOutput: extra field"),
        ("ToolCall/fields/title/required", False, "ToolCall.title: required here, optional there"),
        ("ToolCall/fields/title/nullable", True, "ToolCall.title: null is refused here and not there"),
        ("ToolCall/fields/title/type", "uint32", "ToolCall.title: type differs: schema uint32, ours string"),
        ("ToolCall/meta", False, "ToolCall: extra _meta"),
        ("Diff/fields/oldText/mark", "", "Diff.oldText: mark differs: schema none, ours no mark"),
        (
            "ReadTextFileRequest/fields/line/mark",
            "E",
            "ReadTextFileRequest.line: mark differs: schema E, ours Exact",
        ),
        ("Plan/fields/entries/mark", "N", "Plan.entries: mark differs: schema N, ours Lenient"),
        ("AuthCapabilities/fields/terminal/default", True, "AuthCapabilities.terminal: default differs"),
        ("Notice/fields/title/limits", {"minLength": 2}, "Notice.title: limits differ"),
        ("Role/values", ["assistant"], "Role: extra values ['user']"),
        ("Role/values", ["assistant", "user", "tool"], "Role: missing values ['tool']"),
        ("Role/open", True, "Role: open there, not here"),
        ("NoticeSeverity/open", False, "NoticeSeverity: closed there, not here"),
        (
            "ContentBlock/tag",
            "kind",
            "TextContent: tag differs: schema ('kind', 'text'), ours ('type', 'text')",
        ),
        (
            "ContentBlock/arms",
            [{"tag": "text", "type": "TextContent"}],
            "ContentBlock: arms differ: schema TextContent",
        ),
        ("McpServer/tag", "kind", "McpServer: tags differ: schema kind"),
        ("AuthMethod/open", True, "AuthMethod: an unknown variant would be refused"),
        ("SessionId/type", "uint64", "SessionId: type differs: schema uint64, ours string"),
        ("NesExcerpt/fields/speed", NEW, "NesExcerpt.speed: missing field"),
        ("Hologram", ALIAS, "Hologram: missing type"),
        ("Cost", None, "Cost: extra type"),
    ],
)
def test_the_comparison_notices(path: str, value: Any, found: str) -> None:
    assert [line for line in plant("v1", path, value) if line.startswith(found)]


@pytest.mark.parametrize(
    ("path", "value", "found"),
    [
        ("PlanItems/fields/entries/mark", "ES", "PlanItems.entries: mark differs: schema ES, ours Sifted"),
        ("IdleStateUpdate/fields/background/mark", "ES", "IdleStateUpdate.background: mark differs"),
        ("PromptRequest/fields/prompt/limits", {"minItems": 2}, "PromptRequest.prompt: limits differ"),
        ("StringPropertySchema/fields/enum/limits", {}, "StringPropertySchema.enum: limits differ"),
        ("ToolCallLocation/fields/line/limits", {}, "ToolCallLocation.line: limits differ"),
        ("Annotations/fields/priority/limits", {"maximum": 1}, "Annotations.priority: limits differ"),
        ("RunningStateUpdate/fields/speed", NEW, "StateUpdated.speed: missing field"),
        ("DiffPathPairChange/fields/oldPath", None, "DiffMove.oldPath: extra field"),
        ("ToolCallStatus/values", ["pending"], "ToolCallStatus: extra values ['in_progress'"),
        ("ToolKind/open", False, "ToolKind: closed there, not here"),
        ("CancelledPermissionOutcome/meta", False, "CancelledPermissionOutcome: extra _meta"),
    ],
)
def test_the_comparison_notices_in_v2(path: str, value: Any, found: str) -> None:
    assert [line for line in plant("v2", path, value) if line.startswith(found)]


def test_the_comparison_notices_an_unknown_permission_outcome_let_in() -> None:
    outcome = schema.RequestPermissionOutcome | Raw
    found = differences("v1", load("v1"), {**OURS["v1"], "RequestPermissionOutcome": outcome})
    assert found == ["RequestPermissionOutcome: an unknown variant would be let in"]


def sync(source: Path, out: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "scripts" / "sync-schema"), str(source), "--out", str(out)]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.mark.skipif(not SHARED.is_dir(), reason="the official schema is not next to the project")
def test_the_facts_are_those_of_the_official_schema(tmp_path: Path) -> None:
    assert sync(SHARED, tmp_path).returncode == 0
    for name in ("v1.json", "v2.json"):
        assert (tmp_path / name).read_text() == (FACTS / name).read_text()


def test_a_folder_without_schemas_is_named_in_one_line(tmp_path: Path) -> None:
    done = sync(tmp_path, tmp_path)
    assert done.returncode == 1
    assert done.stderr == f"sync-schema: {tmp_path / 'v1' / 'schema.json'}: No such file or directory\n"

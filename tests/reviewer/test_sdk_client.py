"""The official SDK's client drives the reviewer."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from .conftest import REVIEWER

acp = pytest.importorskip("acp")
schema = pytest.importorskip("acp.schema")


class SdkEditor(acp.Client):  # type: ignore[misc]
    def __init__(self, choice: str) -> None:
        self.choice = choice
        self.updates: list[Any] = []
        self.questions: list[Any] = []
        self.written: dict[str, str] = {}

    async def session_update(self, session_id: str, update: Any, **kwargs: Any) -> None:
        self.updates.append(update)

    async def request_permission(self, session_id: str, tool_call: Any, options: Any, **kwargs: Any) -> Any:
        self.questions.append((tool_call, options))
        outcome = schema.AllowedOutcome(outcome="selected", option_id=self.choice)
        return schema.RequestPermissionResponse(outcome=outcome)

    async def read_text_file(self, session_id: str, path: str, **kwargs: Any) -> Any:
        return schema.ReadTextFileResponse(content=Path(path).read_text())

    async def write_text_file(self, session_id: str, path: str, content: str, **kwargs: Any) -> None:
        self.written[path] = content
        Path(path).write_text(content)


async def test_the_official_client_has_a_project_reviewed_and_repaired(project: Path) -> None:
    path = project / "a.py"
    path.write_text("import os\nimport sys\n\nprint(sys.argv)\n")
    editor = SdkEditor("apply")
    capabilities = schema.ClientCapabilities(
        fs=schema.FileSystemCapabilities(read_text_file=True, write_text_file=True)
    )
    async with asyncio.timeout(60), acp.spawn_agent_process(editor, *REVIEWER) as (connection, process):
        started = await connection.initialize(
            protocol_version=acp.PROTOCOL_VERSION, client_capabilities=capabilities
        )
        assert started.agent_info.name == "dragoman-reviewer"
        session = await connection.new_session(cwd=str(project), mcp_servers=[])
        answer = await connection.prompt(session_id=session.session_id, prompt=[acp.text_block("/fix")])
    assert answer.stop_reason == "end_turn"
    assert editor.written == {str(path): "import sys\n\nprint(sys.argv)\n"}
    (question, options) = editor.questions[0]
    assert [block.type for block in question.content] == ["diff"]
    assert [option.kind for option in options] == ["allow_once", "allow_always", "reject_once", "reject_always"]
    kinds = {update.session_update for update in editor.updates}
    assert {"plan", "tool_call", "tool_call_update", "agent_message_chunk", "session_info_update"} <= kinds
    said = "".join(u.content.text for u in editor.updates if u.session_update == "agent_message_chunk")
    assert "**Repaired 1 finding** in 1 file" in said
    assert process.returncode == 0

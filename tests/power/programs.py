"""What is done to each store while the power may fail, and what must be there afterwards.

A `Part` prepares a directory, has a program work in it, and looks at what is left.  The program says `{"done": N}`
after each of its steps; what is left is then the outcome of step N, or of the one that was begun after it.
"""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec import Raw

from dragoman.gateway.access.tokens import TokenFile
from dragoman.gateway.log.sqlite import SqliteEngine
from dragoman.host.audit import AuditLog, verify
from dragoman.host.audit.chain import read_line
from dragoman.host.files import Workspace
from dragoman.host.permissions import ApprovalStore

REPORTING = """
import json, os, sys
from pathlib import Path
root, report = Path(sys.argv[1]), os.open(sys.argv[2], os.O_WRONLY | os.O_APPEND)
def done(number):
    os.write(report, json.dumps({"done": number}).encode() + b"\\n")
"""


@dataclass(frozen=True)
class Part:
    """`outcomes` of a store after each step, the first of them before all; `found` reads it from what is left."""

    program: str
    found: Callable[[Path], Any]
    outcomes: tuple[Any, ...]
    prepare: Callable[[Path], object] = lambda root: None

    def check(self, root: Path, done: int) -> None:
        """Fail unless what is left is what was promised."""
        found = self.found(root)
        promised = self.outcomes[done : done + 2]
        assert found in promised, f"after step {done} there is {found}, not {' or '.join(map(str, promised))}"


TOKENS = """
from dragoman.gateway.access.tokens import add_token, revoke_token
steps = [(add_token, "one", "ann"), (add_token, "two", "bob"), (revoke_token, "one"), (add_token, "three", "ann")]
for number, (act, *words) in enumerate(steps, 1):
    act(root / "tokens.json", *words)
    done(number)
"""


def tokens(root: Path) -> list[str]:
    path = root / "tokens.json"
    return [grant.name for grant in TokenFile(path).grants] if path.exists() else []


APPROVALS = """
from dragoman.host.permissions import Approval, ApprovalStore
store = ApprovalStore(root / "approvals.json")
def approve(id):
    store.remember(Approval(id=id, fingerprint=id, operation="file_read", subject="", scope="always", expires=1e12))
steps = [(approve, "one"), (approve, "two"), (store.revoke, "one"), (approve, "three")]
for number, (act, id) in enumerate(steps, 1):
    act(id)
    done(number)
"""


def approvals(root: Path) -> list[str]:
    return sorted(approval.id for approval in ApprovalStore(root / "approvals.json").approvals())


AUDIT = """
from dragoman.host.audit import AuditLog
with AuditLog(root / "audit.jsonl") as log:
    for number in range(1, 9):
        log.append({"event": "decision", "decision": "deny", "text": "x" * 300})
        log.append({"event": "decision", "decision": "allow", "number": number})
        done(number)
"""


def audited(root: Path) -> int:
    """How many allowed operations the log tells of, in order; refusals behind the last but one may be lost."""
    path = root / "audit.jsonl"
    with AuditLog(path) as log:
        log.append({"event": "note"})
    allowed = [
        (number, record.fields["number"])
        for number, line in enumerate(path.read_bytes().splitlines(keepends=True), 1)
        if (record := read_line(line)) and "number" in record.fields
    ]
    assert [number for _, number in allowed] == [*range(1, len(allowed) + 1)]
    last_but_one = allowed[-2][0] if len(allowed) > 1 else 0
    problems = verify(path)
    assert [problem for problem in problems if problem.line <= last_but_one] == []
    assert "older file" not in str(problems), "the power is blamed on somebody who took the log away"
    assert "spoilt" not in str(problems), "the power is blamed on somebody who changed the seal"
    return len(allowed)


EDITS = """
from dragoman.host.files import Workspace
from dragoman.host.files.extensions import DeleteEdit, WriteEdit
for number in range(1, 4):
    edits = [WriteEdit(path=f"{root}/ws/{name}", content=f"{number} {name}\\n" * 400) for name in ("a", "b")]
    last = f"{root}/ws/c"
    edits.append(WriteEdit(path=last, content="c\\n") if number == 2 else DeleteEdit(path=last))
    with Workspace(root / "ws", state=root / "state") as workspace, workspace.editing(edits) as several:
        several.commit()
    done(number)
"""


def old_files(root: Path) -> None:
    for name in ("ws", "state", "state/files"):
        (root / name).mkdir(mode=0o700)
    for name in ("a", "b"):
        (root / "ws" / name).write_text(f"0 {name}\n" * 400)
    (root / "ws" / "c").write_text("c\n")


def edited(root: Path) -> dict[str, str]:
    """The files of a workspace, by the name of each the beginning, once somebody has opened it again."""
    Workspace(root / "ws", state=root / "state").close()
    left = [str(path) for path in (root / "state").rglob("*.damaged")]
    assert not left, left
    names = [path for path in sorted((root / "ws").iterdir()) if not path.name.startswith(".dragoman-")]
    files = {path.name: path.read_text() for path in names}
    assert all(len(set(text.splitlines())) == 1 for text in files.values()), "a file is half of one and of another"
    return {name: text.splitlines()[0] for name, text in files.items()}


LOG = """
import asyncio
from dragoman.gateway.log.engine import LogEntry
from dragoman.gateway.log.sqlite import SqliteEngine
async def main():
    engine = SqliteEngine(root, "power")
    lease = await engine.acquire("s", "us", 60)
    for number in range(1, 6):
        entries = [LogEntry("agent", b'"%d %s"' % (number, b"x" * 2000)) for _ in range(2)]
        await engine.append(lease, entries, after=2 * number - 2)
        done(2 * number - 1)
        await engine.put_fact("session", "s", value=b"%d" % number)
        done(2 * number)
    await engine.forget("s")
    done(11)
    await engine.close()
asyncio.run(main())
"""


def logged(root: Path) -> tuple[int, int]:
    """How many records there are, all whole, and what the fact says."""

    async def read() -> tuple[int, int]:
        engine = SqliteEngine(root)
        try:
            lines = await engine.read("s")
            assert [line.number for line in lines] == [*range(1, len(lines) + 1)]
            assert all(line.is_whole for line in lines)
            said = [int(json.loads(bytes(Raw(line.entry.frame))).split()[0]) for line in lines]
            assert said == [number // 2 + 1 for number in range(len(lines))]
            fact = await engine.fact("session", "s")
            return len(lines), int(fact.value) if fact else 0
        finally:
            await engine.close()

    return asyncio.run(read())


NONE, ONE, THREE = ["one"], ["one", "two"], ["two", "three"]
PARTS = {
    "tokens": Part(TOKENS, tokens, ([], NONE, ONE, ["two"], THREE)),
    "approvals": Part(APPROVALS, approvals, ([], NONE, ONE, ["two"], sorted(THREE))),
    "audit log": Part(AUDIT, audited, tuple(range(9))),
    "edits": Part(
        EDITS,
        edited,
        (
            {"a": "0 a", "b": "0 b", "c": "c"},
            {"a": "1 a", "b": "1 b"},
            {"a": "2 a", "b": "2 b", "c": "c"},
            {"a": "3 a", "b": "3 b"},
        ),
        old_files,
    ),
    "gateway's log": Part(LOG, logged, (*((n // 2 * 2 + n % 2 * 2, n // 2) for n in range(11)), (0, 5))),
}

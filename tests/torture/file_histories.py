"""Workspace, user and agent: edits, saves, questions, undos, crashes and recoveries in any order.

The agent's requests run in a child process (`moments`).  In it the user may save a file at any moment, or the
process may be killed.  What must hold, whatever happens:

* a content the user saved is in the workspace, unless the user has replaced or removed it, or said yes to a
  question that showed it;
* a change of several files is made whole or not at all, as the agent was told; files the user touched aside;
* a directory of the user's is never removed, and after a recovery nothing of ours lies about.
"""

import asyncio
import hashlib
import itertools
import json
import os
import shutil
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from dragoman.errors import RpcError
from dragoman.host.files import Workspace, linux
from dragoman.host.files import extensions as x
from dragoman.schema import Diff

from .moments import WAYS, die, in_child, lacking, moments

PATHS = ("a", "b", "d/c", "d/e/f")
DIRECTORIES = ("d", "g")

Meanwhile = tuple[tuple[str, str], ...]  # what the user does while a question is open, and to which file

write, mkdir, unlink = os.write, os.mkdir, os.unlink  # as they are when nobody counts


@dataclass(frozen=True)
class Trouble:
    """Something that happens at a moment: the process is killed, or the user saves or deletes a file."""

    kind: str = "none"
    moment: int = 0
    path: str = ""  # empty: the last of those that are changed
    renaming: bool = False


troubles = st.builds(
    Trouble,
    st.sampled_from(["save", "kill", "none", "delete"]),
    st.integers(1, 24),
    st.sampled_from(["", "", "", *PATHS]),
    st.booleans(),
)
changes = st.dictionaries(st.sampled_from(PATHS), st.sampled_from([True, True, False]), min_size=1, max_size=3)
meanwhiles = st.sampled_from([(), (), (), *(((kind, path),) for kind in ("save", "delete") for path in PATHS)])
answers = st.sampled_from([True, True, True, False])


class History(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.top = Path(tempfile.mkdtemp(prefix="dragoman-history-", dir=_fast()))
        self.ws, self.state = self.top / "ws", self.top / "state"
        self.ws.mkdir()
        self.numbers = itertools.count(1)
        self.owned: set[str] = set()  # contents of the user's that must not be lost
        self.made: set[str] = set()  # directories of the user's
        self.written: dict[
            str, tuple[str | None, str]
        ] = {}  # by the agent: what was there before, and what it wrote
        self.half: dict[str, tuple[str | None, str | None]] = {}  # a change that was cut short: old and new
        self.touched: set[str] = set()  # files the user has changed since the last request began

    def teardown(self) -> None:
        shutil.rmtree(self.top)

    @initialize(way=st.sampled_from(WAYS))
    def begin(self, way: str) -> None:
        self.way = way
        for path in ("a", "b"):
            self.user_acts("save", path, False)

    @rule(
        kind=st.sampled_from(["save", "again", "delete", "mkdir"]),
        path=st.sampled_from(PATHS),
        renaming=st.booleans(),
    )
    def user_acts(self, kind: str, path: str, renaming: bool) -> None:
        if kind == "mkdir":
            name = DIRECTORIES[renaming]
            if not (self.ws / name).exists():
                (self.ws / name).mkdir()
                self.made.add(name)
        elif kind != "again":
            self._note(_act(self.ws, kind, path, self._content("user"), renaming))
        elif (now := _now(self.ws, path)) is not None:  # saved again as it is
            (self.ws / "saving").write_text(now)
            (self.ws / "saving").replace(self.ws / path)
            self.touched.add(path)

    # The agent

    @rule(path=st.sampled_from(PATHS), yes=answers, meanwhile=meanwhiles, trouble=troubles)
    def agent_writes(self, path: str, yes: bool, meanwhile: Meanwhile, trouble: Trouble) -> None:
        content = self._content("agent")
        request = x.WriteFileRequest(session_id="s", path=f"{self.ws}/{path}", content=content)
        permit = self._permit(yes, meanwhile)
        self._request({path: content}, lambda workspace: workspace.write_file(request, permit), trouble)

    @rule(stays=changes, yes=answers, meanwhile=meanwhiles, trouble=troubles)
    def agent_edits(self, stays: dict[str, bool], yes: bool, meanwhile: Meanwhile, trouble: Trouble) -> None:
        wanted = {path: self._content("agent") if kept else None for path, kept in stays.items()}
        edits = [_edit(self.ws, path, content) for path, content in wanted.items()]
        request = x.ApplyEditsRequest(session_id="s", edits=edits)
        permit = self._permit(yes, meanwhile)
        self._request(wanted, lambda workspace: workspace.apply_edits(request, permit), trouble)

    def _permit(self, yes: bool, meanwhile: Meanwhile) -> Any:
        """The user is shown a question, does something, and answers."""
        acts = [(*act, self._content("user"), False) for act in meanwhile]

        async def permit(operation: Any, diff: Diff | None) -> None:
            self._tell({"shown": diff.old_text if diff else None})
            while acts:
                self._tell(_act(self.ws, *acts.pop()))
            if not yes:
                raise RpcError(-32000, "no")
            self._tell({"yes": True})

        return permit

    @precondition(lambda self: self.written)
    @rule(data=st.data(), trouble=troubles)
    def agent_undoes(self, data: st.DataObject, trouble: Trouble) -> None:
        """Bring back what was there before, only where the agent's own content still is."""
        path = data.draw(st.sampled_from(sorted(self.written)))
        before, after = self.written[path]
        edit = _edit(self.ws, path, before, expected_sha256=hashlib.sha256(after.encode()).hexdigest())
        request = x.ApplyEditsRequest(session_id="s", edits=[edit])
        self._request({path: before}, lambda workspace: workspace.apply_edits(request), trouble)
        self.written.pop(path, None)

    @precondition(lambda self: self.half)
    @rule(trouble=troubles)
    def next_start(self, trouble: Trouble) -> None:
        """A workspace is made: whatever was cut short is settled, or that is cut short as well."""

        async def nothing(workspace: Workspace) -> None:
            pass

        if self._in_child(nothing, trouble, "a") == -9:
            return
        half = {path: both for path, both in self.half.items() if path not in self.touched}
        self.half = {}
        is_done = any(_now(self.ws, path) == new != old for path, (old, new) in half.items())
        self._check_all_or_none(half, is_done)
        self._check()

    # What is done, and what must hold then

    def _request(
        self, wanted: dict[str, str | None], ask: Callable[[Workspace], Awaitable[object]], trouble: Trouble
    ) -> None:
        if self.half:
            self.next_start(Trouble())
        self.touched = set()
        before = {path: _now(self.ws, path) for path in wanted}
        status = self._in_child(ask, trouble, next(reversed(wanted)))
        if status == -9:
            self.half = {path: (before[path], content) for path, content in wanted.items()}
            return
        left = {path: (before[path], new) for path, new in wanted.items() if path not in self.touched}
        self._check_all_or_none(left, status == 0)
        if status == 0:
            self.written |= {path: (before[path], new) for path, new in wanted.items() if new is not None}
        self._check()

    def _in_child(self, ask: Callable[[Workspace], Awaitable[object]], trouble: Trouble, path: str) -> int:
        """Have something asked of a workspace; 0: done, 1: refused, -9: killed.  What was told is noted."""
        reading, self._telling = os.pipe()
        theirs = self._content("user")

        def act(number: int) -> None:
            if number != trouble.moment or trouble.kind == "none":
                return
            if trouble.kind == "kill":
                die()
            self._tell(_act(self.ws, trouble.kind, trouble.path or path, theirs, trouble.renaming))

        async def run() -> int:
            with Workspace(self.ws, state=self.state) as workspace:
                try:
                    await ask(workspace)
                except RpcError:
                    return 1
            return 0

        def work() -> int:
            lacking(self.way)
            os.fsync = linux.sync_filesystem = lambda fd: None
            with moments(act):
                return asyncio.run(run())

        status = in_child(work)
        os.close(self._telling)
        with open(reading, "rb") as file:
            self._note(*map(json.loads, file))
        assert status in (0, 1, -9), "neither done nor refused"
        return status

    def _tell(self, news: dict[str, Any] | None) -> None:
        if news:
            write(self._telling, json.dumps(news).encode() + b"\n")

    def _note(self, *told: dict[str, Any] | None) -> None:
        """What the user was shown and answered, saved and deleted."""
        shown = None
        for news in filter(None, told):
            match news:
                case {"shown": text}:
                    shown = text
                case {"yes": True}:
                    self.owned.discard(shown or "")
                case _:  # what was there is the user's to throw away
                    self.owned.discard(news["was"] or "")
                    self.owned |= {news["content"]} if news["content"] else set()
                    self.touched.add(news["path"])

    def _check_all_or_none(self, files: dict[str, tuple[str | None, str | None]], is_done: bool) -> None:
        found = {path: _now(self.ws, path) for path in files}
        wanted = {path: new if is_done else old for path, (old, new) in files.items()}
        if self.way == "claim" and not is_done:  # killed when a name was claimed, and the file not yet there
            found = {path: text or None for path, text in found.items()}
            wanted = {path: text or None for path, text in wanted.items()}
        assert found == wanted

    def _check(self) -> None:
        there = {str(path.relative_to(self.ws)): path for path in self.ws.rglob("*")}
        texts = {path.read_text() for path in there.values() if path.is_file()}
        assert self.owned <= texts, f"lost: {self.owned - texts}"
        assert self.made <= set(there), "a directory of the user's is gone"
        assert not [name for name in there if ".dragoman-" in name]
        assert not [path for path in self.state.rglob("*") if path.is_file()]

    def _content(self, whose: str) -> str:
        return f"{whose} {next(self.numbers)}"


def _act(ws: Path, kind: str, path: str, content: str, renaming: bool) -> dict[str, Any] | None:
    """The user saves or deletes a file; what was there is told."""
    was, file = _now(ws, path), ws / path
    if kind == "delete":
        if was is None:
            return None
        unlink(file)
        return {"path": path, "was": was, "content": ""}
    for above in reversed(file.relative_to(ws).parents):
        if not (ws / above).exists():
            mkdir(ws / above)
    saved = ws / "saving" if renaming else file
    fd = os.open(saved, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    write(fd, content.encode())
    os.close(fd)
    if renaming:
        os.replace(saved, file)
    return {"path": path, "was": was, "content": content}


def _now(ws: Path, path: str) -> str | None:
    try:
        return (ws / path).read_text()
    except FileNotFoundError:
        return None


def _edit(ws: Path, path: str, content: str | None, **guard: str) -> x.FileEdit:
    if content is None:
        return x.DeleteEdit(path=f"{ws}/{path}", **guard)
    return x.WriteEdit(path=f"{ws}/{path}", content=content, **guard)


def _fast() -> str | None:
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def run_histories(number: int, steps: int = 12, *, same: bool = False) -> None:
    """Run so many histories; with `same`, always the same ones."""
    run_state_machine_as_test(
        History,
        settings=settings(
            max_examples=number,
            stateful_step_count=steps,
            deadline=None,
            database=None,
            derandomize=same,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        ),
    )


def save_at_every_moment(way: str) -> None:
    """Have the user save the file that the agent writes, old or new, at each moment of that, in both ways."""
    for path, renaming, moment in itertools.product(("a", "d/e/f"), (False, True), range(1, 30)):
        history = History()
        try:
            history.begin(way=way)
            trouble = Trouble("save", moment, renaming=renaming)
            history.agent_writes(path=path, yes=True, meanwhile=(), trouble=trouble)
        finally:
            history.teardown()

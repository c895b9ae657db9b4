"""What the reviewer names in a state of a repository, compared with what it must name."""

import itertools
import os
import stat
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from pathlib import Path
from typing import NamedTuple

from dragoman import Client, InvalidParams, connect

from .conftest import REVIEWER, Reviewing, User
from .git_states import Failure, Site, State, made


class SharedReviewer(NamedTuple):
    """A reviewer that many states are shown to, and where it was started."""

    client: Client
    site: Site


@asynccontextmanager
async def shared_reviewer(at: Path) -> AsyncIterator[SharedReviewer]:
    site = Site(at)
    async with started(site) as client:
        yield SharedReviewer(client, site)


def started(site: Site) -> AbstractAsyncContextManager[Client]:
    return connect(REVIEWER, User("apply-all"), env=site.env, inherit_env=False)


async def compare(state: State, at: Path, shared: SharedReviewer, configuration: str = "none") -> None:
    """Say everything to the reviewer that the table has, and raise AssertionError where its answers differ."""
    with made(state, at, configuration, shared.site) as site:
        is_usual = site.env is shared.site.env
        async with nullcontext(shared.client) if is_usual else started(site) as client:
            session = Reviewing(await client.new_session(cwd=site.cwd))
            before = _content(site)
            for prompt, expected in state.prompts.items():
                where = f"{state.name}, {configuration}, {prompt}"
                named, text = await _named(session, prompt)
                after = _content(site)
                if prompt.startswith("/fix"):
                    if not isinstance(named, Failure):
                        named = sorted(
                            _inside(path, site)
                            for path in before.keys() | after.keys()
                            if before.get(path) != after.get(path)
                        )
                else:
                    assert after == before, f"{where}: something was changed by looking at it"
                assert named == (expected if isinstance(expected, Failure) else sorted(expected)), (
                    f"{where}: {text}"
                )
                expected_note = state.told.get(prompt)
                assert (expected_note or "") in text, f"{where}: {text}"
                if not prompt.startswith("/fix"):
                    assert bool(_notes(text)) == bool(expected_note and "Nothing" not in expected_note), (
                        f"{where}: {text}"
                    )
        assert not site.ran.exists(), f"{state.name}, {configuration}: a program of the user's settings was run"


async def _named(session: Reviewing, prompt: str) -> tuple[Sequence[str] | Failure, str]:
    """Where unused imports are found, or why nothing can be looked at; and what is said."""
    try:
        turn = await session.say(prompt)
    except InvalidParams as exc:
        assert isinstance(exc.data, dict)
        assert exc.message.startswith("That cannot be reviewed: ")
        return Failure(exc.data["kind"]), exc.message
    assert turn.stop_reason == "end_turn"
    return sorted(f"{path}:{line}" for path, line, code in turn.findings if code == "F401"), turn.text


def _notes(text: str) -> list[str]:
    """What is said of files that were not reviewed, besides those in a language nobody knows."""
    notes = [line.removeprefix("- Note: ") for line in text.splitlines() if line.startswith("- Note: ")]
    return [note for note in notes if not note.startswith(("no analyser here knows", "only the syntax"))]


def _content(site: Site) -> dict[str, tuple[int, bytes]]:
    """Everything in a state and in its maker's home, Git's own files included."""
    found = {}
    for top, directories, files in itertools.chain(os.walk(site.at), os.walk(site.home)):
        for name in (*directories, *files):
            path = os.path.join(top, name)
            status = os.lstat(path)
            is_file, is_link = stat.S_ISREG(status.st_mode), stat.S_ISLNK(status.st_mode)
            data = Path(path).read_bytes() if is_file else os.fsencode(os.readlink(path)) if is_link else b""
            found[path] = status.st_mode, data
    return found


def _inside(path: str, site: Site) -> str:
    return os.path.relpath(path, site.cwd)

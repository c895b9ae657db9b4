"""What the user allowed for longer than once: how far it reaches, and the file it is kept in."""

import json
import os
import stat
import subprocess
import sys
import time

import pytest
from patience import PATIENCE
from torture.host_permissions import Screen, approve_then_try

from dragoman.host.operations import FileRead
from dragoman.host.permissions import Approval, ApprovalsError, ApprovalStore, Permissions, Rules

pytestmark = pytest.mark.usefixtures("nothing_left")

ALL_FILES = '[[allow]]\noperation = "file_read"\npath = ["**", "/**"]\n'


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


def kept(id):
    return Approval(id=id, fingerprint="f", operation="file_read", subject="", scope="always", expires=1e12)


@pytest.mark.parametrize("scope", ["session", "workspace", "always"])
async def test_an_approval_holds_for_exactly_what_was_approved(tmp_path, scope):
    tried, asked, again = await approve_then_try(tmp_path, scope)
    assert tried >= 40
    assert (asked, again) == (tried, 0)


async def test_how_far_an_approval_reaches(root, tmp_path):
    other = tmp_path / "other"
    reach = {}
    for scope in ("once", "session", "workspace", "always"):
        screen = Screen(f"allow_{scope}")
        path = tmp_path / f"{scope}.json"
        permissions = Permissions(asker=screen, store=ApprovalStore(path))
        await permissions.decide("s", read(root), workspace=root)
        screen.choice = "reject_once"
        fresh = Permissions(asker=screen, store=ApprovalStore(path))
        stranger = Permissions(asker=screen, store=ApprovalStore(path), agent="stranger")
        decisions = [
            await permissions.decide("s", read(root), workspace=root),
            await permissions.decide("another", read(root), workspace=root),
            await fresh.decide("s", read(root), workspace=root),
            await fresh.decide("s", read(root), workspace=other),
            await stranger.decide("s", read(root), workspace=root),
        ]
        reach[scope] = [decision.allowed for decision in decisions]
    assert reach == {
        "once": [False, False, False, False, False],
        "session": [True, False, False, False, False],
        "workspace": [True, True, True, False, False],
        "always": [True, True, True, True, False],
    }


async def test_scopes_that_cannot_be_kept_are_not_offered(root, store):
    offers = []
    for keep, workspace in ((None, root), (store, None), (store, root)):
        screen = Screen("reject_once")
        await Permissions(asker=screen, store=keep).decide("s", read(root), workspace=workspace)
        offers.append([option.scope for option in screen.seen[0].options if option.allows])
    assert offers == [
        ["once", "session"],
        ["once", "session", "always"],
        ["once", "session", "workspace", "always"],
    ]


async def test_an_approval_is_revoked_at_run_time_in_every_process(root, store):
    screen = Screen("allow_always")
    permissions = Permissions(asker=screen, store=store)
    elsewhere = Permissions(store=ApprovalStore(store.path))
    await permissions.decide("s", read(root), workspace=root)
    screen.choice = "allow_session"
    await permissions.decide("s", read(root, "b"), workspace=root)
    assert await elsewhere.decide("s", read(root), workspace=root)
    in_session, kept = permissions.approvals()
    assert (in_session.scope, kept.scope, kept.subject) == ("session", "always", f"{root}/a.txt")
    assert permissions.revoke(kept.id) == 1
    assert not await elsewhere.decide("s", read(root), workspace=root)
    assert permissions.revoke("unknown") == 0
    assert permissions.revoke() == 1
    assert permissions.approvals() == ()


async def test_a_closed_session_takes_its_approvals_along(root):
    screen = Screen("allow_session")
    permissions = Permissions(asker=screen)
    await permissions.decide("s", read(root), workspace=root)
    permissions.close_session("s")
    assert (await permissions.decide("s", read(root), workspace=root)).why == "the session is closed"
    permissions.open_session("s")
    await permissions.decide("s", read(root), workspace=root)
    assert len(screen.seen) == 2


async def test_always_is_thirty_days_unless_said_otherwise(root, store):
    permissions = Permissions(asker=Screen("allow_always"), store=store)
    await permissions.decide("s", read(root), workspace=root)
    (approval,) = permissions.approvals()
    assert 29.9 < (approval.expires - time.time()) / 86400 < 30.1
    brief = Permissions(asker=Screen("allow_always"), store=store, lifetime=0.0)
    assert await brief.decide("s", read(root, "b"), workspace=root)
    assert len(permissions.approvals()) == 1
    assert not await Permissions(store=store).decide("s", read(root, "b"), workspace=root)


async def test_approvals_are_in_a_file_only_the_user_can_read(root, store):
    permissions = Permissions(asker=Screen("allow_always"), store=store)
    await permissions.decide("s", read(root), workspace=root)
    assert stat.S_IMODE(store.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(store.path.parent.stat().st_mode) == 0o700
    assert json.loads(store.path.read_text())["version"] == 1
    assert sorted(path.name for path in store.path.parent.iterdir()) == ["approvals.json", "approvals.json.lock"]


def test_processes_that_remember_at_once_lose_nothing(store):
    code = """
import sys
from dragoman.host.permissions import Approval, ApprovalStore
store = ApprovalStore(sys.argv[1])
for number in range(20):
    store.remember(Approval(id=f"{sys.argv[2]}-{number}", fingerprint="f", operation="file_read", subject="",
                            scope="always", expires=1e12))
"""
    writers = [subprocess.Popen([sys.executable, "-c", code, store.path, str(number)]) for number in range(3)]
    assert [writer.wait(timeout=PATIENCE) for writer in writers] == [0, 0, 0]
    assert len(store.approvals()) == 60


def test_a_killed_writer_leaves_the_old_approvals_or_the_new(store):
    store.remember(Approval(id="old", fingerprint="f", operation="o", subject="", scope="always", expires=1e12))
    code = """
import os, sys
from dragoman.host.permissions import Approval, ApprovalStore
os.fsync = lambda fd: os.kill(os.getpid(), 9)
ApprovalStore(sys.argv[1]).remember(Approval(id="new", fingerprint="f", operation="o", subject="", scope="always",
                                             expires=1e12))
"""
    assert subprocess.run([sys.executable, "-c", code, store.path]).returncode == -9
    assert [approval.id for approval in ApprovalStore(store.path).approvals()] == ["old"]


async def test_a_workspaces_rules_are_trusted_by_path_and_content(root, store):
    (root / "permissions.toml").write_text(ALL_FILES)

    def rules():
        return Rules.load(None, root / "permissions.toml", store.trusts)

    untrusted = rules()
    assert not await Permissions(rules=untrusted).decide("s", read(root), workspace=root)
    store.trust(*untrusted.untrusted)
    assert await Permissions(rules=rules()).decide("s", read(root), workspace=root)
    store.revoke_trust(untrusted.untrusted[0])
    assert not await Permissions(rules=rules()).decide("s", read(root), workspace=root)
    store.trust(*untrusted.untrusted)
    (root / "permissions.toml").write_text(ALL_FILES + "# changed\n")
    assert not await Permissions(rules=rules()).decide("s", read(root), workspace=root)


# A file that cannot be read


def spoilt(change):
    return lambda path: path.write_text(change(path.read_text()))


SPOILS = {
    "half": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "no text": lambda path: path.write_bytes(b"\xff"),
    "empty": lambda path: path.write_bytes(b""),
    "one byte": spoilt(lambda text: text.replace('"version"', '"versiom"', 1).replace("{", "[", 1)),
    "newer": spoilt(lambda text: text.replace('"version": 1', '"version": 2')),
    "no version": spoilt(lambda text: text.replace('"version": 1,', "", 1)),
    "a further field": spoilt(lambda text: text.replace('"version": 1,', '"version": 1, "only": [],', 1)),
    "a further field of an approval": spoilt(
        lambda text: text.replace('"subject":', '"only": "now", "subject":', 1)
    ),
    "zeros": lambda path: path.write_bytes(bytes(path.stat().st_size)),
    "no such scope": spoilt(lambda text: text.replace('"always"', '"ever"')),
    "a lone surrogate": spoilt(lambda text: text.replace('"subject": "', '"subject": "\\ud83d')),
    "for all": lambda path: path.chmod(0o666),
    "for the group": lambda path: path.chmod(0o660),
    "a link": lambda path: (path.rename(f"{path}2"), path.symlink_to(f"{path}2")),
    "a pipe": lambda path: (path.rename(f"{path}2"), os.mkfifo(path)),
    "a directory": lambda path: (path.rename(f"{path}2"), path.mkdir()),
}


@pytest.mark.parametrize("spoil", SPOILS.values(), ids=SPOILS)
async def test_a_file_that_cannot_be_read_approves_nothing_and_is_left_as_it_is(root, store, spoil):
    asked = Screen("allow_always")
    permissions = Permissions(asker=asked, store=store)
    for name in "abcde":
        await permissions.decide("s", read(root, name), workspace=root)
    store.trust("/rules.toml", "digest")
    assert await Permissions(store=ApprovalStore(store.path)).decide("s", read(root, "a"), workspace=root)
    spoil(store.path)

    def state():
        files = sorted(store.path.parent.glob("approvals.json*"))
        return {file.name: (file.lstat().st_mode, file.is_file() and file.read_bytes()) for file in files}

    before = state()
    for again in (store, ApprovalStore(store.path)):
        assert not await Permissions(store=again).decide("s", read(root, "a"), workspace=root)
        assert not again.trusts("/rules.toml", "digest")
        decision = await Permissions(asker=asked, store=again).decide("s", read(root, "f"), workspace=root)
        assert (decision.allowed, decision.scope) == (True, "once")  # the user said yes; it is just not kept
        for change in (
            lambda store=again: store.remember(kept("x")),
            lambda store=again: store.trust("/other.toml", "digest"),
            lambda store=again: store.revoke_trust("/rules.toml"),
            lambda store=again: store.revoke(),
        ):
            with pytest.raises(ApprovalsError, match=r"approvals\.json cannot be read: .*Mend it, or move it away"):
                change()
    assert state() == before


async def test_a_file_that_was_mended_is_read_again(root, store):
    permissions = Permissions(asker=Screen("allow_always"), store=store)
    await permissions.decide("s", read(root), workspace=root)
    store.path.chmod(0o660)
    assert not await Permissions(store=store).decide("s", read(root), workspace=root)
    store.path.chmod(0o600)
    assert await Permissions(store=store).decide("s", read(root), workspace=root)


async def test_a_file_that_is_not_there_is_begun(root, store):
    assert store.approvals() == ()
    await Permissions(asker=Screen("allow_always"), store=store).decide("s", read(root), workspace=root)
    store.path.unlink()
    assert store.approvals() == ()
    store.remember(kept("x"))
    assert [approval.id for approval in store.approvals()] == ["x"]


async def test_an_approval_for_a_session_ends_after_its_lifetime_too(root):
    screen = Screen("allow_session")
    permissions = Permissions(asker=screen, lifetime=0.0)
    for _ in range(2):
        assert await permissions.decide("s", read(root), workspace=root)
    assert len(screen.seen) == 2
    assert permissions.approvals() == ()


def test_an_approval_for_a_session_in_the_file_covers_nothing(store):
    store.remember(Approval(id="x", fingerprint="f", operation="o", subject="", scope="session", expires=1e12))
    assert store.find("f", "", None) is None


@pytest.mark.parametrize("scope", ["allow_session", "allow_always"])
async def test_an_approval_made_while_the_clock_was_ahead_holds_no_longer_than_others(
    root, store, monkeypatch, scope
):
    screen, now = Screen(scope), time.time()
    permissions = Permissions("ask", Rules(), screen, store)
    monkeypatch.setattr(time, "time", lambda: now + 100 * 365 * 86_400)
    assert await permissions.decide("s", read(root), workspace=str(root))
    monkeypatch.setattr(time, "time", lambda: now)
    assert await permissions.decide("s", read(root), workspace=str(root))
    assert len(screen.seen) == 2  # the clock is right again, so it was asked about anew
    assert await permissions.decide("s", read(root), workspace=str(root))
    assert len(screen.seen) == 2

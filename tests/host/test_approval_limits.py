"""The file of approvals at its limits: what it holds is counted, and a file that is none approves nothing."""

import os
import time
from pathlib import Path

import pytest

from dragoman.host.audit import Redactor
from dragoman.host.permissions import approvals
from dragoman.host.permissions.approvals import Approval, ApprovalsError, ApprovalStore

HOUR = 3600.0


def approval(number: int, scope: str = "always") -> Approval:
    now = time.time()
    return Approval(
        id=str(number), fingerprint=f"f{number}", operation="execute", subject="x", scope=scope, created=now,
        expires=now + HOUR,
    )  # fmt: skip


def test_what_was_allowed_once_is_not_allowed_by_the_file(tmp_path: Path) -> None:
    store = ApprovalStore(tmp_path / "approvals.json")
    store.remember(approval(1, "once"))
    store.remember(approval(2))
    assert store.find("f1", "", None) is None
    assert store.find("f2", "", None) is not None


def test_one_approval_is_revoked_and_the_others_stay(tmp_path: Path) -> None:
    store = ApprovalStore(tmp_path / "approvals.json")
    for number in (1, 2, 3):
        store.remember(approval(number))
    assert store.revoke("2") == 1
    assert [kept.id for kept in store.approvals()] == ["1", "3"]
    assert store.revoke() == 2
    assert store.approvals() == ()


def test_the_oldest_approvals_go_when_there_are_too_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(approvals, "MAX_APPROVALS", 3)
    store = ApprovalStore(tmp_path / "approvals.json")
    for number in range(5):
        store.remember(approval(number))
    assert [kept.id for kept in store.approvals()] == ["2", "3", "4"]


def test_a_file_that_is_too_large_or_no_plain_file_approves_nothing_and_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "approvals.json"
    store = ApprovalStore(path)
    store.remember(approval(1))
    written = path.read_bytes()
    monkeypatch.setattr(approvals, "MAX_FILE", len(written))
    assert ApprovalStore(path).find("f1", "", None) is not None
    monkeypatch.setattr(approvals, "MAX_FILE", len(written) - 1)
    assert ApprovalStore(path).find("f1", "", None) is None
    with pytest.raises(ApprovalsError, match="larger"):
        ApprovalStore(path).remember(approval(2))
    assert path.read_bytes() == written
    path.unlink()
    os.mkfifo(path, 0o600)
    with pytest.raises(ApprovalsError, match="plain file"):
        ApprovalStore(path).remember(approval(2))


def test_the_longer_of_two_known_secrets_is_taken_out_whole_and_short_values_stay() -> None:
    redactor = Redactor(["hunter2", "hunter2-and-more", "ab"])
    assert redactor.text("it is hunter2-and-more, or hunter2") == "it is [redacted], or [redacted]"
    assert redactor.text("about absolute abbeys") == "about absolute abbeys"

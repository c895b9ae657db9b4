"""What the table of protected paths says of a name, however it is written and whatever lies around it."""

from pathlib import Path

import pytest

from dragoman.host.protected import protected_by

SECRET, KEPT = True, False  # whether reading it asks, too


@pytest.mark.parametrize(
    ("path", "reason", "secret"),
    [
        ("/w/.claude/settings.json", "an agent takes programs", SECRET),
        ("/w/.env.local", "it holds secrets of the project", SECRET),
        ("/w/.Env", "it holds secrets of the project", SECRET),
        ("/w/.en\u200bv", "it holds secrets of the project", SECRET),
        ("/w/.env. ", "it holds secrets of the project", SECRET),
        ("/w/.vscode/tasks.json", "an editor runs what it says", KEPT),
        ("/w/.git/config", "Git takes programs", SECRET),
        ("/w/.git/hooks/pre-commit", "Git takes programs", KEPT),
        ("/w/GIT~1/config", "Git takes programs", SECRET),
        ("/w/.vscode/.env", "it holds secrets of the project", SECRET),  # the strongest of two reasons
        ("/own/kept.json", "Dragoman keeps its own settings", SECRET),
    ],
)
def test_a_name_is_protected_for_its_reason(path: str, reason: str, secret: bool) -> None:
    found = protected_by(path, ["/own"])
    assert found is not None
    assert found.reason.startswith(reason)
    assert found.secret is secret


def test_a_git_directory_is_protected_under_any_name(tmp_path: Path) -> None:
    store = tmp_path / "data"
    for name in ("objects", "refs", "hooks"):
        (store / name).mkdir(parents=True)
    (store / "HEAD").write_text("ref: refs/heads/main\n")
    (store / "config").write_text("[core]\n")
    found = protected_by(str(store / "hooks" / "post-checkout"))
    assert found is not None
    assert found.reason.startswith("Git takes programs")


@pytest.mark.parametrize("path", ["/w/a.py", "/w/environment.py", "/w/git/config", "/owner/kept.json"])
def test_an_ordinary_name_is_not_protected(path: str) -> None:
    assert protected_by(path, ["/own"]) is None

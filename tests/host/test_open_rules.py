"""A rule that leaves its arguments open allows those alone that stay in the session's directories."""

import time
from pathlib import Path

import pytest

from dragoman.host.operations import Execute
from dragoman.host.permissions import Rules, scrutiny
from dragoman.host.permissions.rules.matching import Circumstances

RULE = '[[allow]]\noperation = "terminal_execute"\nargv = ["pytest", "..."]\n'
OUTSIDE = "one of the arguments lies outside the session's directories"
PROTECTED = "one of the arguments is a protected path"


@pytest.mark.parametrize(
    ("word", "effect"),
    [
        ("tests", "allow"),
        ("{root}/tests", "allow"),
        ("{further}", "allow"),
        ("../not-there", "allow"),
        ("{outside}", "ask"),
        ("../outside", "ask"),
        ("--ignore={outside}", "ask"),
        ("link", "ask"),
        (".env", "ask"),
    ],
)
def test_an_open_rule_does_not_mean_what_lies_outside_the_directories_of_the_session(
    tmp_path: Path, word: str, effect: str
) -> None:
    root, outside, further = (tmp_path / name for name in ("root", "outside", "further"))
    for path in (root / "tests", outside, further):
        path.mkdir(parents=True)
    (root / "link").symlink_to(outside)
    (tmp_path / "rules.toml").write_text(RULE)
    rules = Rules.load(tmp_path / "rules.toml", tmp_path / "none", lambda path, digest: False)
    argv = ("pytest", word.format(root=root, outside=outside, further=further))
    command, place = Execute(argv=argv, cwd=str(root)), Circumstances(str(root), "", time.time())
    verdict = scrutiny.judged(rules, [command], place, [str(root), str(further)], [])
    assert verdict is not None
    assert verdict.effect == effect
    if effect == "ask":
        assert verdict.why == (PROTECTED if word == ".env" else OUTSIDE)

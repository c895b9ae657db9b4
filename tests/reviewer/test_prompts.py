"""What a prompt is taken to ask for."""

from pathlib import Path

import pytest

from dragoman import schema as s
from dragoman.reviewer.prompts import ReviewRequest, codes_in, file_of, understood


@pytest.fixture
def cwd(tmp_path: Path) -> Path:
    for name in ("a.py", "my dir/b.py", "my-dir/c.py", "review"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.touch()
    return tmp_path


def asked(cwd: Path, text: str) -> ReviewRequest:
    return understood([s.TextContent(text=text)], str(cwd))


@pytest.mark.parametrize(
    ("text", "verb", "extent", "names"),
    [
        ("/review", "review", "files", []),
        ("  /REVIEW a.py", "review", "files", ["a.py"]),
        ('/review "my dir/b.py" my-dir', "review", "files", ["my dir/b.py", "my-dir"]),
        ("/review staged", "review", "staged", []),
        ("/review diff", "review", "changes", []),
        ("/review diff main~2", "review", "changes", []),
        ("/fix F401", "fix", "files", []),
        ("/fix a.py F401", "fix", "files", ["a.py"]),
        ("/explain F401", "explain", "files", []),
        ("/dance", "unknown", "files", []),
        ("Please review my staged changes.", "review", "staged", []),
        ("could you check what I changed?", "review", "changes", []),
        ("look at `a.py`, please", "review", "files", ["a.py"]),
        ("lint @a.py:12", "review", "files", ["a.py"]),
        ("fix @nothing.py", "fix", "files", ["nothing.py"]),
        ("what does F401 mean?", "explain", "files", []),
        ("why is a.py:3 wrong", "explain", "files", ["a.py"]),
        ("what is this project about?", "unknown", "files", []),
        ("list the TODOs", "todo", "files", []),
        ("hello", "help", "files", []),
        ("write a poem", "unknown", "files", []),
        ("", "unknown", "files", []),
    ],
)
def test_words_and_commands_are_understood(cwd: Path, text: str, verb: str, extent: str, names: list[str]) -> None:
    request = asked(cwd, text)
    assert (request.verb, request.extent) == (verb, extent)
    assert list(request.paths) == [str(cwd / name) for name in names]


def test_a_commit_is_named_behind_diff(cwd: Path) -> None:
    assert asked(cwd, "/review diff main~2").since == "main~2"
    assert asked(cwd, "/review diff").since == "HEAD"
    assert asked(cwd, "/review diff --output=/tmp/x").since == "HEAD"  # an option is no commit


def test_what_is_a_path_is_no_code(cwd: Path) -> None:
    assert codes_in(asked(cwd, "/fix my-dir F401").words) == ["F401"]


def test_a_file_without_a_word_is_to_be_reviewed(cwd: Path) -> None:
    link = s.ResourceLink(name="a.py", uri=(cwd / "a.py").as_uri())
    assert understood([link], str(cwd)).verb == "review"


def test_a_diff_is_told_from_a_file(cwd: Path) -> None:
    diff = "--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-old\n+new\n"
    assert asked(cwd, f"/review\n{diff}").extent == "diff"
    attached = s.EmbeddedResource(resource=s.TextResourceContents(uri="file:///x.patch", text=diff))
    request = understood([attached], str(cwd))
    assert (request.verb, request.extent, request.diff) == ("review", "diff", diff)


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("file:///a%20b/c.py", "/a b/c.py"),
        ("file://localhost/c.py", "/c.py"),
        ("file://elsewhere/c.py", None),
        ("https://example.com/c.py", None),
        ("/plain/../c.py", "/c.py"),
    ],
)
def test_addresses_of_files_are_understood(uri: str, path: str | None) -> None:
    assert file_of(uri) == path

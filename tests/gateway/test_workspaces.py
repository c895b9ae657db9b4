"""The directories of a session, each looked at beneath its principal's own."""

import json
from pathlib import Path

import pytest
from msgspec import Raw

from dragoman.errors import InvalidParams
from dragoman.gateway.access.principals import PerPrincipal, PrincipalName
from dragoman.gateway.access.workspaces import Workspaces


@pytest.fixture
def people(tmp_path: Path):
    places = Workspaces(str(tmp_path / "{principal}"))
    places.hold()
    for name in ("bob", "bobby"):
        places.root(name).close()
        (tmp_path / name / "project").mkdir()
    yield places
    places.close()


def opening(cwd: object, *others: object) -> dict[str, Raw]:
    return {"cwd": Raw(json.dumps(cwd).encode()), "additionalDirectories": Raw(json.dumps(others).encode())}


def settled(places: Workspaces, cwd: str, *others: str) -> list[str]:
    found = opening(cwd, *others)
    places.settle(found, "bob")
    return [json.loads(bytes(found["cwd"])), *json.loads(bytes(found["additionalDirectories"]))]


def test_every_directory_of_a_session_gets_its_real_path(people: Workspaces, tmp_path: Path) -> None:
    own = tmp_path / "bob" / "project"
    (tmp_path / "bob" / "link").symlink_to("project")
    assert settled(people, f"{tmp_path}/bob/link", f"{tmp_path}/bob/link") == [str(own), str(own)]


@pytest.mark.parametrize("other", ["bobby/project", "bobby", "", "bob/../bobby/project", "bob/out"])
def test_no_directory_of_a_session_is_somebody_elses(other: str, people: Workspaces, tmp_path: Path) -> None:
    (tmp_path / "bob" / "out").symlink_to("../bobby/project")
    own = f"{tmp_path}/bob/project"
    for directories in ((f"{tmp_path}/{other}",), (own, f"{tmp_path}/{other}"), (own, own, f"{tmp_path}/{other}")):
        with pytest.raises(InvalidParams, match="workspace"):
            settled(people, *directories)


@pytest.mark.parametrize("path", ["project", "", ".", "~", "/a\0b"])
def test_a_directory_is_named_by_an_absolute_path(path: str, people: Workspaces) -> None:
    with pytest.raises(InvalidParams, match="absolute"):
        settled(people, path)
    with pytest.raises(InvalidParams, match="absolute"):
        Workspaces(None).settle(opening(path), "bob")


def test_what_is_remembered_of_one_principal_is_not_found_for_another() -> None:
    kept: PerPrincipal[str, int] = PerPrincipal()
    ann, bob = PrincipalName("ann"), PrincipalName("bob")
    kept.put(ann, "key", 1)
    assert (kept.find(ann, "key"), kept.find(bob, "key"), len(kept)) == (1, None, 1)
    assert (kept.drop(bob, "key"), kept.drop(ann, "key"), kept.drop(ann, "key")) == (None, 1, None)
    assert list(kept.entries()) == []

"""A place is what was opened, whatever has its name by now."""

import os
import subprocess
from pathlib import Path

import pytest

from dragoman.foundation.places import DIRECTORY, Place, open_place, open_unlinked
from dragoman.host.files import linux, paths
from dragoman.host.files.errors import FileRefused
from dragoman.host.files.paths import Entry, Roots, open_beneath


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "other").mkdir()
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


def swap(project: Path) -> None:
    project.rename(project.with_name("moved"))
    project.symlink_to("other")


def test_a_process_is_started_in_the_directory_that_was_opened(project: Path) -> None:
    with open_place(project, os.O_DIRECTORY) as place:
        swap(project)
        done = subprocess.run(
            ["pwd", "-P"], cwd=place.working_directory, capture_output=True, text=True, check=True
        )
        assert done.stdout == f"{project.with_name('moved')}\n"
        assert (place.path, place.now()) == (str(project), str(project.with_name("moved")))


def test_a_deleted_directory_is_nowhere(project: Path) -> None:
    with open_place(project) as place, place.again() as again:
        project.rmdir()
        for each in (place, again):
            with pytest.raises(FileNotFoundError):
                each.now()


def test_a_real_path_that_has_become_a_link_is_not_opened(project: Path) -> None:
    (project / "file").touch()
    open_unlinked(str(project / "file")).close()
    swap(project)
    for path in (project, project / "file"):
        with pytest.raises(OSError):
            open_unlinked(str(path))


@pytest.mark.parametrize("path", ["", "\0", "a\0b", "\ud800", "a" * 5000, "a/" * 3000, "none"])
def test_a_path_that_leads_nowhere_is_an_os_error(path: str, project: Path) -> None:
    with pytest.raises(OSError):
        open_place(project / "x" / path).close()


def opened(root: Path, path: str) -> Place:
    with open_place(root) as place:
        return open_beneath(place, path)


@pytest.mark.parametrize(
    "target",
    ["../other", "/", "{top}/other", "..", "../project/../other", "/proc/self/root", "link"],
)
def test_no_link_leads_out_of_a_place(target: str, project: Path) -> None:
    (project / "link").symlink_to(target.format(top=project.parent))
    for path in (f"{project}/link", f"{project}/link/.", f"{project}/link/../other"):
        with pytest.raises((FileRefused, OSError)):
            opened(project, path).close()


ALONE = {"the way": (paths, "is_beneath", lambda path, top: True), "the last look": (linux, "BENEATH", 0)}


@pytest.mark.parametrize("guard", ALONE.values(), ids=ALONE)
def test_each_guard_of_a_place_holds_without_the_other(
    guard: tuple[object, str, object], project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project.parent / "other" / "below").mkdir()
    (project / "link").symlink_to("../other")
    monkeypatch.setattr(*guard)
    for path in ("link", "link/below", "link/../other", "link/../other/below"):
        with pytest.raises((FileRefused, OSError)):
            opened(project, f"{project}/{path}").close()


def test_without_both_guards_a_link_leads_out_of_a_place(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the test above is about them."""
    (project.parent / "other" / "below").mkdir()
    (project / "link").symlink_to("../other")
    for guard in ALONE.values():
        monkeypatch.setattr(*guard)
    with opened(project, f"{project}/link/below") as place:
        assert place.path == f"{project.parent}/other/below"


@pytest.mark.parametrize("guard", ["no link is opened", "the last look"])
def test_a_directory_that_is_swapped_before_it_is_opened_leads_nowhere(
    guard: str, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "inner").mkdir()
    find = Roots.find

    def swapping(roots: Roots, path: str) -> Entry:
        entry = find(roots, path)
        (project / "inner").rmdir()
        (project / "inner").symlink_to("../other")
        return entry

    monkeypatch.setattr(Roots, "find", swapping)
    if guard == "the last look":
        monkeypatch.setattr(paths, "DIRECTORY", DIRECTORY & ~os.O_NOFOLLOW)
    else:
        monkeypatch.setattr(paths, "is_beneath", lambda path, top: True)
    with pytest.raises((FileRefused, OSError)):
        opened(project, f"{project}/inner").close()


@pytest.mark.parametrize("target", ["inner", "./inner", "{top}/project/inner", "../project/inner"])
def test_links_inside_a_place_are_followed(target: str, project: Path) -> None:
    (project / "inner").mkdir()
    (project / "link").symlink_to(target.format(top=project.parent))
    with opened(project, f"{project}/link") as place:
        assert place.path == f"{project}/inner"

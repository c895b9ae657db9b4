"""`/fix` over 20 packages of other people: they work as before, and only what was found changes."""

import os
import subprocess
from pathlib import Path

import pytest

from .fix_packages import TESTED, changed_elsewhere, copied, fetch, fix, imports, outcomes, packages

pytestmark = [pytest.mark.torture, pytest.mark.timeout(0)]  # a large package takes minutes on a busy machine


@pytest.fixture(scope="module")
def fetched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the packages are; PACKAGES names a directory to keep them in."""
    directory = Path(os.environ.get("PACKAGES") or tmp_path_factory.mktemp("packages"))
    try:
        fetch(directory)
    except subprocess.CalledProcessError:
        pytest.skip("the packages cannot be fetched")
    return directory


@pytest.mark.parametrize("package", packages())
def test_a_repaired_package_is_imported_and_tested_as_before(fetched: Path, tmp_path: Path, package: str) -> None:
    before = copied(fetched, package, tmp_path / "before")
    after = copied(fetched, package, tmp_path / "after")
    repaired = fix(after, tmp_path / "state")
    assert changed_elsewhere(before, after, repaired) == []
    assert fix(after, tmp_path / "state").findings == {}, "what was repaired once needs no second repair"
    had, has = imports(fetched, before), imports(fetched, after)
    broken = {name: wrong for name, told in has.items() if (wrong := sorted(set(told) - set(had[name])))}
    assert broken == {}
    assert sum(not told for told in had.values()) > len(had) / 2, (
        "most modules have to be imported to tell anything"
    )
    tests = TESTED.get(package.partition("==")[0])
    ran = outcomes(fetched, before, tests) if tests else {}
    if tests:
        assert "passed" in ran.values()
        assert outcomes(fetched, after, tests) == ran
    lines = sum(map(len, repaired.findings.values()))
    print(
        f"{package}: {lines} lines in {len(repaired.findings)} files repaired, {len(had)} modules, {len(ran)} tests"
    )

"""Where the user's own files are, whatever the environment says: never in the workspace."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dragoman.foundation import directories

SHOWN = "print(config_directory(), state_directory(), sep='\\n')"
NOBODY = 54321  # a user who has no name


@pytest.mark.parametrize("home", ["relative", ".", "", "~"])
@pytest.mark.parametrize("base", ["relative", "", None])
def test_a_base_that_is_no_absolute_path_does_not_count(home: str, base: str | None, tmp_path: Path) -> None:
    bases = {} if base is None else {"XDG_CONFIG_HOME": base, "XDG_STATE_HOME": base}
    kept = {name: value for name, value in os.environ.items() if not name.startswith("XDG_")}
    found = subprocess.check_output(
        [sys.executable, "-c", f"from dragoman.foundation.directories import *\n{SHOWN}"],
        env={**kept, "HOME": home, **bases},
        cwd=tmp_path,
        text=True,
    ).splitlines()
    assert [os.path.isabs(path) and not path.startswith(str(tmp_path)) for path in found] == [True, True]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody without a name")
@pytest.mark.parametrize("env", [{}, {"HOME": ""}, {"HOME": "relative"}], ids=str)
def test_a_user_without_a_name_and_a_home_has_directories_all_the_same(env: dict[str, str]) -> None:
    program = f"{Path(directories.__file__).read_text()}\n{SHOWN}"
    python = "/usr/bin/python3"  # which anybody can run
    if not os.path.exists(python):
        pytest.skip("there is no interpreter that anybody can run")
    found = subprocess.check_output([python, "-c", program], env=env, cwd="/", user=NOBODY, group=NOBODY, text=True)
    assert found.splitlines() == ["/.config/dragoman", "/.local/state/dragoman"]

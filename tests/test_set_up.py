"""What `make test` says where programs are missing that the tests drive."""

import os
import shutil
import subprocess
from pathlib import Path

SCRIPT = Path(__file__).parent.parent / "scripts" / "test-programs"
DRIVEN = {"bwrap": "bubblewrap", "nvim": "neovim", "nginx": "nginx-light"}
DRIVEN |= {name: name for name in ("strace", "git", "openssl", "tmux", "zsh", "fish", "caddy")}
if os.uname().machine == "x86_64":  # where programs for another machine are tried
    DRIVEN |= {"aarch64-linux-gnu-as": "binutils-aarch64-linux-gnu", "qemu-aarch64": "qemu-user"}


def said(directory: Path, *programs: str) -> str:
    """What the script says where these programs are all there is, and so no way to install any."""
    for name in ("bash", "id"):
        os.symlink(str(shutil.which(name)), directory / name)
    for name in programs:
        (directory / name).write_text("#!/bin/sh\n")
        (directory / name).chmod(0o755)
    run = subprocess.run(
        [directory / "bash", SCRIPT], env={"PATH": str(directory)}, capture_output=True, text=True, check=True
    )
    assert run.stderr == ""
    return run.stdout


def test_one_line_names_what_is_skipped_and_how_to_get_it(tmp_path: Path) -> None:
    for missing, package in DRIVEN.items():
        directory = tmp_path / missing
        directory.mkdir()
        told = said(directory, *(name for name in DRIVEN if name != missing))
        assert told.count("\n") == 1
        assert f"tests that drive {package} will be skipped" in told
        assert f"apt install {package})" in told


def test_nothing_is_said_where_everything_is_there(tmp_path: Path) -> None:
    assert said(tmp_path, *DRIVEN) == ""


def test_the_guide_names_the_same_programs() -> None:
    page = (SCRIPT.parent.parent / "docs" / "concepts" / "robustness.md").read_text()
    assert all(f"| `{package}` |" in page for package in DRIVEN.values())

"""A copy of the tree with an environment of its own, so that processes which tests start run the copy as well."""

import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path


def make_copy(root: Path, place: Path) -> None:
    """Copy what Git knows of `root`, and new files, to `place`; compile it once for all rows."""
    shutil.rmtree(place, ignore_errors=True)
    listed = subprocess.check_output(["git", "ls-files", "-zco", "--exclude-standard"], cwd=root, text=True)
    for name in filter(None, listed.split("\0")):
        if (root / name).is_file():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, place / name)
    _make_environment(place / ".venv", place / "src")
    if (root / ".venv-v2").exists():
        (place / ".venv-v2").symlink_to(root / ".venv-v2")
    subprocess.run([python_of(place), "-m", "compileall", "-q", "src"], cwd=place, check=True)


def python_of(place: Path) -> str:
    """The interpreter of a copy: it imports the copy's `src`, and all else from the environment that runs this."""
    return str(place / ".venv" / "bin" / "python")


def _make_environment(environment: Path, source: Path) -> None:
    real = Path(sys.prefix)
    (environment / "bin").mkdir(parents=True)
    shutil.copy2(real / "pyvenv.cfg", environment)
    for program in (real / "bin").iterdir():
        if program.name.startswith("python"):
            (environment / "bin" / program.name).symlink_to(sys._base_executable)  # type: ignore[attr-defined]
        elif program.name != "dragoman":
            (environment / "bin" / program.name).symlink_to(program)
    shutil.copy2(real / "bin" / "dragoman", environment / "bin" / "dragoman")
    started = (environment / "bin" / "dragoman").read_text()
    (environment / "bin" / "dragoman").write_text(started.replace(str(real), str(environment)))
    packages = Path(sysconfig.get_path("purelib"))
    own = environment / packages.relative_to(real)
    own.mkdir(parents=True)
    (own / "mutant.pth").write_text(f"{source}\nimport site; site.addsitedir({str(packages)!r})\n")


def put(path: Path, text: str) -> None:
    """Write a module of a copy, and remove its bytecode, which within a second may look fresh."""
    path.write_text(text)
    for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
        compiled.unlink()

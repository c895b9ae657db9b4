"""The bundled sample project, on which to try the reviewer."""

from pathlib import Path

SAMPLE = Path(__file__).with_name("sample")
SUFFIX = ".txt"  # a suffix of every name, so that no tool takes the sample for our code


def copy_sample(directory: Path) -> None:
    """Copy the sample project into a directory."""
    for file in SAMPLE.rglob(f"*{SUFFIX}"):
        target = directory / str(file.relative_to(SAMPLE)).removesuffix(SUFFIX)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(file.read_bytes())

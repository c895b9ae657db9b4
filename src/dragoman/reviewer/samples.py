"""The sample project that comes along, to try the reviewer on."""

from pathlib import Path

SAMPLE = Path(__file__).with_name("sample")
SUFFIX = ".txt"  # behind every name, so that no tool takes the sample for code of ours


def copy_sample(directory: Path) -> None:
    """Put the sample project into a directory."""
    for file in SAMPLE.rglob(f"*{SUFFIX}"):
        target = directory / str(file.relative_to(SAMPLE)).removesuffix(SUFFIX)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(file.read_bytes())

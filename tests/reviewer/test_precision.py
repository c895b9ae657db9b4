"""The samples of findings that were judged by hand: what was right is found again, what was mended stays unsaid."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from .conftest import reviewing


def read(name: str) -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name(name).read_text())


SAMPLE = read("precision.toml")
FRESH = read("precision_fresh.toml")  # of packages that nothing was tuned on
GOAL = 0.9


def written(project: Path, cases: dict[str, Any]) -> None:
    """Each case in a directory of its own."""
    for name, case in cases.items():
        path = project / name / case["path"]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes((case["text"] * case.get("times", 1)).encode(case.get("encoding", "utf-8")))
        if "settings" in case:
            (project / name / "pyproject.toml").write_text(case["settings"])


@pytest.mark.parametrize("sample", [SAMPLE, FRESH], ids=["tuned", "fresh"])
def test_nine_of_ten_findings_were_judged_right(sample: dict[str, Any]) -> None:
    findings = sample["findings"]
    right = [finding for finding in findings if finding["verdict"]]
    places = {(f["package"], f["path"], f["line"], f["code"], f["reason"]) for f in findings}
    assert len(findings) == len(places) == 100
    assert all(finding["reason"] and finding["version"] for finding in findings)
    assert len(right) / len(findings) >= GOAL


def test_nine_of_ten_errors_and_warnings_of_the_fresh_sample_were_judged_right() -> None:
    grave = [finding for finding in FRESH["findings"] if finding["severity"] != "note"]
    assert len(grave) == 75
    assert sum(finding["verdict"] for finding in grave) / len(grave) >= GOAL


def test_no_package_of_the_fresh_sample_was_used_to_mend_the_checks() -> None:
    used = {finding["package"] for finding in SAMPLE["findings"]}
    used |= {name.strip() for case in SAMPLE["silent"].values() for name in case["reason"].split(":")[0].split(",")}
    assert used.isdisjoint(finding["package"] for finding in FRESH["findings"])


async def test_what_was_judged_right_is_found_again(project: Path) -> None:
    cases = SAMPLE["cases"]
    assert {finding["code"] for sample in (SAMPLE, FRESH) for finding in sample["findings"]} == set(cases)
    written(project, cases)
    async with reviewing(project) as reviewer:
        turn = await reviewer.say("/review")
    expected = {(f"{code}/{case['path']}", case["line"], code) for code, case in cases.items()}
    assert turn.findings == expected


async def test_nothing_is_said_of_the_shapes_of_false_alarms(project: Path) -> None:
    written(project, SAMPLE["silent"])
    async with reviewing(project) as reviewer:
        turn = await reviewer.say("/review")
    assert turn.findings == set()


async def test_nothing_is_said_of_them_where_no_linter_is_installed(project: Path, bare_command: list[str]) -> None:
    written(project, SAMPLE["silent"])
    async with reviewing(project, command=bare_command) as reviewer:
        turn = await reviewer.say("/review")
    assert turn.findings == set()

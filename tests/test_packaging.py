"""What a package index and a CI service are told: the metadata, the README, the versions that are tried."""

import re
import runpy
import tomllib
from pathlib import Path
from typing import Any

import pytest

import dragoman

ROOT = Path(__file__).parents[1]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
README = runpy.run_path(str(ROOT / "scripts" / "package_readme.py"))["for_an_index"](
    (ROOT / "README.md").read_text()
)
FOR_DEVELOPERS = {"all", "dev", "docs", "test"}


def test_the_readme_renders_on_a_package_index() -> None:
    pytest.importorskip("comrak", reason="readme_renderer[md] is not installed")
    markdown = pytest.importorskip("readme_renderer.markdown")
    rendered = markdown.render(README)
    assert rendered
    assert rendered.count("<pre") == README.count("```") // 2
    assert rendered.count("<table>") == 2


def test_the_readme_of_the_package_links_to_nothing_that_only_the_repository_has() -> None:
    assert re.findall(r"\]\((.*?)\)", README) == ["https://agentclientprotocol.com"]
    assert "![" not in README


def test_the_versions_agree() -> None:
    assert PROJECT["version"] == dragoman.__version__
    newest = re.findall(r"^## \[(.*?)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest[:2] == ["Unreleased", dragoman.__version__]


def test_the_extra_all_has_every_extra_for_users() -> None:
    extras = PROJECT["optional-dependencies"]
    (all_of_them,) = extras["all"]
    assert all_of_them == f"dragoman[{','.join(sorted(set(extras) - FOR_DEVELOPERS))}]"


def test_every_python_that_is_claimed_is_tried() -> None:
    yaml = pytest.importorskip("yaml")
    claimed = {name.rpartition(" ")[2] for name in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", name)}
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())
    assert set(workflow["jobs"]["test"]["strategy"]["matrix"]["python"]) == claimed
    assert min(claimed, key=lambda version: int(version[2:])) == PROJECT["requires-python"].removeprefix(">=")
    checks = [step["run"] for step in workflow["jobs"]["check"]["steps"] if "run" in step]
    assert {"make lint", "make types", "make docs", "make packages"} <= set(checks)


def test_the_hooks_before_a_commit_name_tests_that_are_there() -> None:
    yaml = pytest.importorskip("yaml")
    (local,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    named = [word for hook in local["hooks"] for word in hook["entry"].split() if word.startswith("tests/")]
    assert named and all((ROOT / name).exists() for name in named)

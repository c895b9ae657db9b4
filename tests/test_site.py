"""The documentation as a site: built without a warning, whole, and without anything from elsewhere."""

import argparse
import html
import importlib
import re
import subprocess
import sys
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from patience import PATIENCE

import dragoman
from dragoman import schema
from dragoman.cli import parser
from dragoman.roles import AgentRole, ClientRole, methods

pytest.importorskip("mkdocstrings", reason="the docs extra is not installed")

ROOT = Path(__file__).parents[1]
MOST_PAGES = 15  # in a directory
PACKAGES = [
    "dragoman",
    *(f"dragoman.{name}" for name in ("schema", "schema.v2", "host", "store", "testing", "coder")),
]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", directory],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert built.returncode == 0, built.stderr
    assert "WARNING" not in built.stderr
    return directory


def words(page: Path) -> str:
    return html.unescape(re.sub(r"<[^>]+>", "", page.read_text()))


def test_a_page_loads_nothing_from_another_server(site: Path) -> None:
    for page in site.rglob("*.html"):
        loaded = re.findall(
            r"<(?:script|link|img|iframe|source)\b[^>]*?(?:src|href)=[\"']?([^\"'\s>]+)", page.read_text()
        )
        assert not [address for address in loaded if "//" in address], page
    assert not [
        style
        for style in site.rglob("*.css")
        if re.search(r"(?:url\(|@import)\W*(?:https?:)?//", style.read_text())
    ]


def documented(site: Path) -> set[str]:
    """The names that have a place in the API reference, by the inventory that comes with it."""
    inventory = (site / "objects.inv").read_bytes().split(b"\n", 4)[4]
    return {line.partition(" ")[0] for line in zlib.decompress(inventory).decode().splitlines()}


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_is_in_the_api_reference(site: Path, package: str) -> None:
    module, names = importlib.import_module(package), documented(site)
    things = {name: getattr(module, name) for name in module.__all__}
    homes = {
        name: f"{getattr(thing, '__module__', '')}.{getattr(thing, '__qualname__', name)}"  # an alias has its own
        for name, thing in things.items()
    }
    ours = {name: home for name, home in homes.items() if home.startswith("dragoman.")}
    assert ours
    assert not [name for name, home in ours.items() if not {home, f"{package}.{name}"} & names]


def test_every_method_and_update_is_in_the_protocol_reference(site: Path) -> None:
    page = words(site / "reference" / "protocol.html")
    for role in (AgentRole, ClientRole):
        for name, method in methods(role).items():
            assert method.name in page
            assert (getattr(role, name).__doc__ or "").split("\n")[0].replace("`", "") in page
    assert all(name in page for name in ("auth/login", "auth/logout", "terminal/cancel", "tool_call/cancel"))
    for update in schema.SessionUpdate.__args__:
        if config := getattr(update, "__struct_config__", None):
            assert config.tag in page


def parsers(command: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    yield command
    for action in command._actions:
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                yield from parsers(below)


def test_every_command_and_option_is_in_the_command_line_reference(site: Path) -> None:
    page = words(site / "reference" / "cli.html")
    for command in parsers(parser()):
        assert command.prog in page
        for action in command._actions:
            if action.help is not argparse.SUPPRESS and action.dest != "help":
                assert not [name for name in action.option_strings if name not in page]


def test_no_directory_of_the_documentation_is_a_heap() -> None:
    pages = Counter(path.parent for path in (ROOT / "docs").rglob("*.md"))
    assert max(pages.values()) <= MOST_PAGES + 1  # an index is the door, and not one of the things behind it


def test_the_site_has_the_version_of_the_package(site: Path) -> None:
    assert dragoman.__version__ in words(site / "project" / "changelog.html")

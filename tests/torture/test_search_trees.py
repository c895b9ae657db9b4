"""Searching at full size: random trees against Git, random expressions against a loop over all lines."""

import os

import pytest

from .search_trees import compare_with_git, compare_with_naive_search

pytestmark = pytest.mark.torture

TREES = int(os.environ.get("SEARCH_TREES", "5000"))
EXPRESSIONS = int(os.environ.get("SEARCH_EXPRESSIONS", "50000"))


def test_5_000_trees_are_listed_as_git_lists_them() -> None:
    compare_with_git(TREES)


def test_50_000_expressions_find_what_a_loop_over_all_lines_finds() -> None:
    compare_with_naive_search(EXPRESSIONS)

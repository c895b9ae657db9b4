"""Every method of either version has its way to the other, read off the facts of the official schema."""

import json
from pathlib import Path

from dragoman.dialects.v2.translator import V2

FACTS = Path(__file__).parents[1] / "schema" / "facts"
RENAMED = {call.name: name for table in (V2.to_agent, V2.to_client) for name, call in table.items() if call.name}


def methods(version: str) -> set[str]:
    return set(json.loads((FACTS / f"{version}.json").read_text())["methods"])


def test_every_method_of_version_2_is_one_of_version_1_or_stands_for_something() -> None:
    new = methods("v2") - methods("v1")
    assert {method: RENAMED.get(method) for method in new} == {
        "auth/login": "authenticate",
        "auth/logout": "logout",
        "tool_call/cancel": "_dragoman/tool_call/cancel",
        "terminal/cancel": "_dragoman/terminal/cancel",
    }


def test_every_method_version_2_has_given_up_is_told_in_another_way() -> None:
    gone = methods("v1") - methods("v2")
    assert gone <= set(V2.to_agent) | set(V2.to_client)
    told = {(call.outward or call.name) for table in (V2.to_agent, V2.to_client) for call in table.values()}
    assert {"load", "set_mode"} < told
    assert all(RENAMED[f"_dragoman/v1/{method}"] == method for method in gone - {"authenticate", "logout"})


def test_no_method_is_translated_that_neither_version_has() -> None:
    known = methods("v1") | methods("v2")
    tables = {*V2.to_agent, *V2.to_client}
    assert {method for method in tables if method not in known} == {
        "_dragoman/tool_call/cancel",
        "_dragoman/terminal/cancel",
    }

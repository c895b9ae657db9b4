"""The method table of roles.py against the facts of the official schema, both ways."""

import json
from pathlib import Path
from typing import Any

import pytest

from dragoman import schema
from dragoman.roles import AgentRole, ClientRole, methods
from dragoman.schema.base import Shape

FACTS = Path(__file__).parent / "facts"
RAW_RESULTS = {"MessageMcpResponse", "ConnectionMcpResponse", "ProxySuccessorResponse"}  # Any: depends on the call


def described() -> dict[tuple[str, str, str], dict[str, Any]]:
    """(side, name, kind) -> what the facts say; one row may stand for both generations of `mcp/message`."""
    rows: dict[tuple[str, str, str], dict[str, Any]] = {}
    for file in ("v1.json", "frozen.json"):
        facts = json.loads((FACTS / file).read_text())
        renamed = facts.get("renamed", {})
        for name, variants in facts["methods"].items():
            for variant in variants:
                sides = {"proxy": ["agent", "client"], "protocol": []}.get(variant["side"], [variant["side"]])
                if name == "proxy/initialize":
                    sides = ["agent"]  # only a conductor sends it, and it plays the client
                for side in sides:
                    row = rows.setdefault(
                        (side, name, variant["kind"]), {"params": set(), "result": set(), "stable": False}
                    )
                    row["params"].add(renamed.get(variant["params"], variant["params"]))
                    if result := variant.get("result"):
                        row["result"].add(renamed.get(result, result))
                    row["stable"] |= variant["stable"]
    return rows


def named(tp: Any) -> set[str]:
    """The names a type goes by in the schema."""
    if isinstance(tp, type) and issubclass(tp, Shape):
        return {arm.__name__ for arm in tp.arms}
    return {name for name in dir(schema) if getattr(schema, name) is tp or getattr(schema, name) == tp}


OURS = {
    (side, method.name, "request" if method.is_request else "notification"): method
    for side, role in (("agent", AgentRole), ("client", ClientRole))
    for method in methods(role).values()
}


def test_every_method_of_the_protocol_is_a_signature_and_every_signature_a_method() -> None:
    assert set(OURS) == set(described())


@pytest.mark.parametrize("key", sorted(OURS), ids=lambda key: " ".join(key))
def test_a_method_takes_and_gives_what_the_schema_says(key: tuple[str, str, str]) -> None:
    ours, theirs = OURS[key], described()[key]
    # proxy/initialize has the params and result of initialize under names of its own
    aliases = {"InitializeProxyRequest": "InitializeRequest", "InitializeProxyResponse": "InitializeResponse"}
    params = {aliases.get(name, name) for name in theirs["params"]}
    results = {aliases.get(name, name) for name in theirs["result"]} - RAW_RESULTS
    assert params <= named(ours.params)
    assert results <= named(ours.result)


@pytest.mark.parametrize("key", sorted(OURS), ids=lambda key: " ".join(key))
def test_a_method_is_marked_unstable_exactly_when_only_the_unstable_schema_has_it(
    key: tuple[str, str, str],
) -> None:
    assert OURS[key].unstable is not described()[key]["stable"]

"""Every limit of a gateway: as much is given out, more is refused, and what came back is given out again."""

import asyncio
import re
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Raw
from patience import PATIENCE

from dragoman.errors import Error, InvalidParams, Overloaded
from dragoman.gateway.access.budget import RESOURCES, GatewayBudget, Resource
from dragoman.gateway.access.checks import Checks
from dragoman.gateway.access.limits import Limits, limit_rows

from .house import hosting, stepping, until

HERE = Path(__file__).parent
PROMPTS = "test_budget.py::test_prompts_that_wait_have_a_limit_in_bytes_for_each_principal_and_in_all"
# Each limit and the test that shows it in a running gateway.
TESTED = {
    "connections": "test_limits.py::test_connections_and_requests_have_a_limit_in_all",
    "connections_each": "test_admission.py::test_each_limit_has_a_clear_error_of_its_own",
    "sockets": "test_budget.py::test_of_sockets_only_so_many_are_taken",
    "descriptors": "test_budget.py::test_descriptors_are_kept_free_for_what_runs",
    "sessions": "test_budget.py::test_processes_and_sessions_have_a_limit_in_all",
    "sessions_each": "test_admission.py::test_each_limit_has_a_clear_error_of_its_own",
    "kept_each": "test_retention.py::test_who_keeps_too_much_is_told_what_helps_and_a_retention_makes_room",
    "processes": "test_budget.py::test_processes_and_sessions_have_a_limit_in_all",
    "processes_each": "test_sessions.py::test_each_session_may_have_a_process_of_its_own",
    "requests": "test_limits.py::test_connections_and_requests_have_a_limit_in_all",
    "requests_each": "test_budget.py::test_a_client_may_have_so_many_requests_unanswered",
    "queued_bytes": PROMPTS,
    "queued_bytes_each": PROMPTS,
    "agent_failures": "test_supervision.py::test_an_agent_that_dies_again_and_again_is_not_started_for_each_client",
    "stuck_seconds": "test_supervision.py::test_an_agent_that_stops_reading_is_ended_and_replaced",
    "log_lines": "test_flooding.py::test_an_agent_that_floods_its_stdout_fills_no_log",
    "queue": "test_company.py::test_a_queue_that_is_full_says_so",
    "prompt_bytes": "test_admission.py::test_each_limit_has_a_clear_error_of_its_own",
    "session_bytes": "test_admission.py::test_each_limit_has_a_clear_error_of_its_own",
    "mcp_servers": "test_limits.py::test_a_session_has_so_many_mcp_servers",
    "turn_seconds": "test_admission.py::test_each_limit_has_a_clear_error_of_its_own",
    "cancel_seconds": "test_outcomes.py::test_an_agent_that_does_not_stop_is_ended_and_no_two_turns_run_at_once",
    "owner_seconds": "test_lending.py::test_without_the_client_that_owns_it_there_is_no_workspace",
    "warn_lag": "test_company.py::test_a_viewer_that_falls_behind_is_warned_once_and_stays_if_it_catches_up",
    "evict_lag": "test_company.py::test_a_slow_viewer_holds_up_nobody_and_is_sent_away_and_may_come_back",
    "lag_seconds": "test_company.py::test_a_slow_viewer_holds_up_nobody_and_is_sent_away_and_may_come_back",
}


def test_every_limit_has_a_test_in_a_running_gateway() -> None:
    assert list(TESTED) == [row.name for row in limit_rows()]
    for name, test in TESTED.items():
        file, _, function = test.partition("::")
        assert re.search(rf"def {function}\(", (HERE / file).read_text()), name


SHARED = [name for name in RESOURCES if name + "_each" in Limits.__struct_fields__]


@pytest.mark.parametrize(
    ("name", "limit"), [*((name, name) for name in RESOURCES), *((name, name + "_each") for name in SHARED)]
)
def test_what_is_counted_is_given_out_up_to_its_limit_and_again_once_it_is_back(name: Resource, limit: str) -> None:
    refused: list[str] = []
    limits: dict[str, Any] = {limit: 3}
    budget = GatewayBudget(Limits(**limits), refused.append)
    first, _, third = (budget.take(name, "ann") for _ in range(3))
    with pytest.raises(Overloaded, match=f"the limit {limit} is reached: 3 ") as caught:
        budget.take(name, "ann")
    assert isinstance(caught.value.data, dict)
    assert caught.value.data["limit"] == limit
    assert budget.used(name) == 3  # a refusal takes nothing
    if limit == name:
        with pytest.raises(Overloaded):
            budget.take(name, "bob")
    else:
        budget.take(name, "bob").give_back()  # which is another's share
    first.give_back()
    first.give_back()
    again = budget.take(name, "ann")
    with pytest.raises(Overloaded):
        budget.take(name, "ann")
    third.give_back()
    with pytest.raises(Overloaded):
        budget.take(name, "ann", 2)
    again.give_back()
    budget.take(name, "ann", 2)
    assert set(refused) == {limit}


async def test_connections_and_requests_have_a_limit_in_all(tmp_path: Path) -> None:
    agent, people = stepping(), ("ann", "bob", "cid")
    prompt = [{"type": "text", "text": "word"}]
    async with hosting(tmp_path, agent, people=people, limits=Limits(connections=2, requests=2)) as house:
        async with AsyncExitStack() as stack, asyncio.timeout(PATIENCE):
            ann, bob = [await stack.enter_async_context(house.bare(who)) for who in people[:2]]
            with pytest.raises(Error, match="answered with status 503"):
                async with house.visit("cid"):
                    raise NotImplementedError
            assert house.gateway.budget.refusals == {"connections": 1}
            asking = []
            for one in (ann, bob):
                opened = await one.ask("session/new", {"cwd": str(tmp_path), "mcpServers": []})
                params = {"sessionId": opened["result"]["sessionId"], "prompt": prompt}
                asking.append(asyncio.create_task(one.ask("session/prompt", params)))
            await until(lambda: house.gateway.budget.used("requests") == 2)
            refused = await bob.ask("session/list", {})
            assert refused["error"]["data"]["limit"] == "requests"
            for _ in asking:
                agent.allowed.release()
            for each in asking:
                assert (await each)["result"]["stopReason"] == "end_turn"
            assert "result" in await bob.ask("session/list", {})
        await until(lambda: house.gateway.budget.used("connections") == 0)
        async with house.visit("cid") as cid:
            assert await cid.list_sessions() == []


def test_a_session_has_so_many_mcp_servers() -> None:
    def opened(count: int) -> None:
        servers = [{"type": "acp", "name": f"n{number}", "serverId": f"s{number}"} for number in range(count)]
        found = {"cwd": Raw(b'"/"'), "mcpServers": Raw(msgspec.json.encode(servers))}
        Checks().opening(found, Limits(mcp_servers=2))

    opened(2)
    with pytest.raises((Overloaded, InvalidParams), match="the limit mcp_servers is reached: 2 MCP servers"):
        opened(3)

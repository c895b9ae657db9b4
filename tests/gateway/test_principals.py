"""What belongs to a person stays with that person: approvals, greetings, and whatever else is remembered."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest
from patience import PATIENCE

from dragoman import Session

from .house import Watcher, hosting

pytestmark = pytest.mark.usefixtures("nothing_left")


async def asked_about(watcher: Watcher, session: Session, prompt: str, choose: str) -> bool:
    """Whether somebody was asked before a prompt was done; they choose an option by its id."""
    running = asyncio.create_task(prompted(session, prompt))
    asking = asyncio.create_task(watcher.asked.get())
    async with asyncio.timeout(PATIENCE):
        await asyncio.wait([running, asking], return_when=asyncio.FIRST_COMPLETED)
        was_asked = asking.done()
        if was_asked:
            request, answer = asking.result()
            answer.set_result(next(o.option_id for o in request.options if o.option_id == choose))
        else:
            asking.cancel()
        await running
    return was_asked


async def prompted(session: Session, text: str) -> None:
    await session.prompt(text)


@pytest.mark.parametrize("lasting", ["allow_session", "allow_workspace", "allow_always"])
async def test_what_one_person_allowed_for_longer_is_asked_of_another(tmp_path: Path, lasting: str) -> None:
    work = tmp_path / "work"
    work.mkdir()
    hosted = {"preset": "ask", "state": str(tmp_path / "host")}
    people = ("ann", "bob", "carol")
    async with (
        hosting(tmp_path, people=people, hosted=hosted) as house,
        house.visit("ann") as ann,
        house.visit("bob") as bob,
    ):
        hers, his = await ann.new_session(work), await bob.new_session(work)
        assert await asked_about(ann, hers, "run echo hello", lasting)
        assert not await asked_about(ann, hers, "run echo hello", lasting)
        assert await asked_about(bob, his, "run echo hello", "allow_once")
        async with house.visit("carol") as carol:  # whose host reads what was remembered only now
            assert await asked_about(carol, await carol.new_session(work), "run echo hello", "allow_once")
        tokens = house.tokens
    async with hosting(tmp_path, tokens=tokens, hosted=hosted) as house:  # which has restarted
        for who in people:
            async with house.visit(who) as client:
                session = await client.new_session(work)
                is_asked = await asked_about(client, session, "run echo hello", "allow_once")
                assert is_asked is (who != "ann" or lasting == "allow_session")


GREETER = """
import json, secrets, sys
name = secrets.token_hex(8)
for line in sys.stdin:
    message = json.loads(line)
    if message["method"] == "initialize":
        result = {"protocolVersion": 1, "agentInfo": {"name": name, "version": "1"}}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""


async def test_each_person_is_greeted_by_their_own_agent(tmp_path: Path) -> None:
    async with hosting(tmp_path, [sys.executable, "-c", GREETER]) as house:
        named: dict[str, set[str]] = {"ann": set(), "bob": set()}
        for _ in range(2):
            for who, names in named.items():
                async with house.visit(who) as client:
                    assert client.agent_info is not None
                    names.add(client.agent_info.name)
    assert [len(names) for names in named.values()] == [1, 1]
    assert named["ann"] != named["bob"]


LEAVING_OUT = """
from dragoman.gateway.access.principals import PerPrincipal, PrincipalName

kept: PerPrincipal[str, int] = PerPrincipal()
ann = PrincipalName("ann")
kept.put(ann, "coder", 1)
kept.find(ann, "coder")
kept.find("coder")  # !
kept.find("coder", "coder")  # !
kept.put("ann", "coder", 1)  # !
kept["coder"]  # !
kept.of()  # !
"""


def test_to_leave_out_whose_something_is_does_not_type_check(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    (tmp_path / "uses.py").write_text(LEAVING_OUT)
    command = [sys.executable, "-m", "mypy", "--strict", "--no-pretty", "uses.py"]
    told = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE).stdout
    wrong = {int(line.split(":")[1]) for line in told.splitlines() if ": error: " in line}
    assert wrong == {number for number, line in enumerate(LEAVING_OUT.splitlines(), 1) if line.endswith("# !")}

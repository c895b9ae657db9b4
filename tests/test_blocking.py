"""The client without an event loop: what scripts, notebooks and threads see of it."""

import os
import signal
import subprocess
import sys
import threading

import pytest
from patience import PATIENCE

from dragoman import AgentExited, AgentStartError, Error, RpcError, blocking
from dragoman import schema as s
from dragoman.testing import Testy

TESTY = [sys.executable, "-m", "dragoman", "agent", "testy"]


def text_of(update: object) -> str:
    return update.content.text if isinstance(update, s.AgentMessageChunk) else ""


@pytest.mark.parametrize("target", [Testy, TESTY, "testy"], ids=["class", "command", "name"])
def test_a_turn_gives_its_text_and_its_response(target: object) -> None:
    with blocking.connect(target) as client:
        turn = client.new_session().prompt("echo hello")
        assert turn.text == "hello"
        assert turn.response.stop_reason == "end_turn"
        assert turn.text == "hello"


def test_updates_are_iterated_over_in_order() -> None:
    with blocking.connect(Testy) as client:
        session = client.new_session()
        turn = session.prompt("flood 1000 8")
        said = [text_of(update).split()[0] for update in turn if text_of(update)]
        assert said == [str(number) for number in range(1000)]
        assert turn.response.stop_reason == "end_turn"
        assert session.prompt("echo and on").text == "and on"


def test_a_plain_function_decides_permissions_and_may_block() -> None:
    asked, answer = threading.Event(), threading.Event()

    def decide(request: s.RequestPermissionRequest) -> str | None:
        asked.set()
        assert answer.wait(20)
        return next(option.option_id for option in request.options if option.kind == "allow_once")

    with blocking.connect(Testy, permission=decide) as client:
        turn = client.new_session().prompt("ask")
        assert asked.wait(20)
        answer.set()
        assert turn.text == "Allowed: allow."


def test_without_a_function_every_permission_is_refused() -> None:
    with blocking.connect(Testy) as client:
        assert client.new_session().prompt("ask").text == "Not allowed: reject."


def test_an_error_of_the_permission_function_reaches_the_agent_and_not_the_caller() -> None:
    def decide(request: s.RequestPermissionRequest) -> str | None:
        raise RuntimeError("the dialogue is gone")

    with blocking.connect(Testy, permission=decide) as client:
        session = client.new_session()
        with pytest.raises(Error):
            _ = session.prompt("ask").text
        assert session.prompt("echo still here").text == "still here"


def test_a_permission_function_that_names_no_option_is_told_which_there_are(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with blocking.connect(Testy, permission=lambda request: "sure") as client:
        with pytest.raises(RpcError):
            _ = client.new_session().prompt("ask").text
        assert client.new_session().prompt("echo still here").text == "still here"
    assert "the permission function returned 'sure', which is none of the options: allow" in caplog.text


def test_another_thread_cancels_a_turn() -> None:
    with blocking.connect(Testy) as client:
        session = client.new_session()
        turn = session.prompt("wait")
        threading.Thread(target=session.cancel).start()
        assert turn.response.stop_reason == "cancelled"


def test_threads_drive_sessions_of_one_client_side_by_side() -> None:
    said: dict[int, str] = {}
    with blocking.connect(Testy) as client:

        def talk(number: int) -> None:
            said[number] = client.new_session().prompt(f"echo {number}").text

        threads = [threading.Thread(target=talk, args=[number]) for number in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
    assert said == {number: str(number) for number in range(20)}


def test_an_agent_that_dies_raises_where_its_turn_is_read() -> None:
    with blocking.connect(TESTY) as client, pytest.raises(AgentExited):
        _ = client.new_session().prompt("crash").text


def test_an_agent_that_cannot_start_says_so_and_leaves_no_thread() -> None:
    before = threading.active_count()
    with pytest.raises(AgentStartError, match="no such file"), blocking.connect(["/nonexistent/agent"]):
        pass
    assert threading.active_count() == before


def test_a_closed_client_says_so() -> None:
    with blocking.connect(Testy) as client:
        session = client.new_session()
    with pytest.raises(Error, match="this client is closed"):
        client.new_session()
    with pytest.raises(Error, match="this client is closed"):
        session.prompt("hello")
    session.cancel()


def test_coroutines_of_the_asynchronous_client_run_too() -> None:
    with blocking.connect(Testy) as client:
        assert client.run(client.asynchronous.agent.request("_testy/ping", {"a": 1})) == {"pong": {"a": 1}}


SCRIPT = """
import sys
from dragoman import blocking
with blocking.connect([sys.executable, "-m", "dragoman", "agent", "testy"]) as client:
    print(client.run(client.asynchronous.agent.request("_testy/ping", None)), flush=True)
    client.new_session().prompt("wait").text
"""


def test_ctrl_c_ends_the_wait_and_the_agent() -> None:
    with subprocess.Popen([sys.executable, "-c", SCRIPT], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as script:
        assert script.stdout and script.stdout.readline()
        agent = children_of(script.pid)
        os.kill(script.pid, signal.SIGINT)
        _, errors = script.communicate(timeout=PATIENCE)
    assert script.returncode == -signal.SIGINT
    assert errors.decode().rstrip().endswith("KeyboardInterrupt")
    assert len(agent) == 1 and not os.path.exists(f"/proc/{agent[0]}")


def children_of(pid: int) -> list[int]:
    found: list[int] = []
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/children") as file:
            found += map(int, file.read().split())
    return found

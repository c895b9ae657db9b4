"""Agents found by name, by command and by launch configuration, started, watched, and started again when asked."""

import asyncio
import os
import sys
from pathlib import Path

import pytest
from torture.errands import COMMAND, answer

from dragoman import AgentExited, AgentStartError
from dragoman.foundation.programs import own_command
from dragoman.host import Host
from dragoman.host.processes import Launch, find_agent, known_agents, launch_from, start

pytestmark = pytest.mark.usefixtures("nothing_left")

KNOWN = ["claude", "codex", "gemini", "opencode", "goose", "qwen", "kimi", "copilot", "echo", "testy"]
KNOWN += ["pi", "kilo", "hermes", "droid", "qoder", "fast-agent"]


@pytest.fixture
def own(home: Path) -> Path:
    """The user's file of agents."""
    file = home / "config" / "dragoman" / "agents.toml"
    file.parent.mkdir(parents=True)
    return file


async def test_well_known_agents_have_names(home: Path) -> None:
    assert set(KNOWN) <= set(known_agents())
    assert all(agent.title and agent.described() for agent in known_agents().values())
    assert "@moonshot-ai/kimi-code" in str(known_agents()["kimi"].install)


async def test_the_user_s_own_agents_come_first(own: Path) -> None:
    own.write_text('[gemini]\ncommand = "my-gemini"\n[far]\nurl = "https://example.com/acp"\n')
    assert find_agent("gemini").argv == ["my-gemini"]
    assert find_agent("far").url == "https://example.com/acp"
    assert find_agent("codex").command == "npx"


async def test_an_agent_of_ours_is_that_of_this_installation(home: Path) -> None:
    assert find_agent("testy").argv == own_command("dragoman", "agent", "testy")


async def test_whatever_is_no_name_is_an_address_or_a_command(home: Path) -> None:
    assert find_agent("wss://example.com/acp").url == "wss://example.com/acp"
    assert find_agent("agent --acp 'two words'").argv == ["agent", "--acp", "two words"]


async def test_a_file_of_agents_that_never_ends_is_not_waited_for(own: Path) -> None:
    os.mkfifo(own)
    with pytest.raises(AgentStartError, match="not a plain file"):
        known_agents()
    own.unlink()
    own.symlink_to("/dev/zero")
    with pytest.raises(AgentStartError, match="not a plain file"):
        known_agents()


@pytest.mark.parametrize(
    ("config", "wrong"),
    [
        ('[a]\ncommand = "x"\nurl = "https://example.com"\n', "either a command or a url"),
        ('[a]\ntitle = "neither"\n', "either a command or a url"),
        ('[a]\ntransport = "http"\ncommand = "x"\n', "needs a url"),
        ('[a]\ncommand = ["x"]\n', "command"),
        ('[a]\ncomand = "x"\n', "unknown key 'comand'; did you mean 'command'"),
        ('[a]\ncommand = "x"\nshell = true\n', "unknown key 'shell'; choose from: command, args"),
        ('a = "x"\n', "must be a table"),
    ],
)
async def test_a_mistake_in_the_user_s_file_is_named_and_spoils_no_other_agent(
    own: Path, config: str, wrong: str
) -> None:
    own.write_text(f'{config}[mine]\ncommand = "y"\n')
    with pytest.raises(AgentStartError, match=wrong) as caught:
        find_agent("a")
    assert str(own) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert find_agent("mine").argv == ["y"]
    assert "echo" in known_agents() and "a" not in known_agents()


async def test_the_name_of_a_shipped_agent_with_a_mistake_does_not_start_the_shipped_one(own: Path) -> None:
    own.write_text('[echo]\ncomand = "x"\n')
    with pytest.raises(AgentStartError, match="comand"):
        find_agent("echo")


async def test_a_file_of_agents_that_cannot_be_read_at_all_is_named(own: Path) -> None:
    own.write_text("[a\n")
    with pytest.raises(AgentStartError, match=f"cannot read {own}"):
        find_agent("echo")
    own.unlink()
    own.symlink_to(own)
    with pytest.raises(AgentStartError, match=f"cannot read {own}"):
        find_agent("echo")


@pytest.mark.parametrize(
    "config",
    [
        {"transport": "stdio", "command": "agent", "args": ["--acp"], "env": {"A": "b"}},
        {"transport": "http", "url": "https://example.com/acp", "headers": {"Authorization": "Bearer x"}},
        {"transport": "websocket", "url": "wss://example.com/acp"},
    ],
)
async def test_launch_configurations_of_others_are_understood(config: dict[str, object]) -> None:
    launch = launch_from(config)
    assert (launch.transport, launch.command, launch.url) == (
        config["transport"],
        config.get("command", ""),
        config.get("url", ""),
    )


async def test_an_agent_is_started_by_name_by_command_and_by_configuration(project: Path) -> None:
    for agent in ("testy", "dragoman agent testy", {"command": COMMAND[0], "args": COMMAND[1:]}):
        async with asyncio.timeout(30), start(agent, Host(), cwd=project) as host:
            assert (await host.new_session(project)).id


async def test_an_agent_gets_the_variables_of_its_configuration(project: Path) -> None:
    program = "import os, sys; sys.exit(f'{os.environ[\"A\"]} {os.getcwd()}')"
    launch = Launch(command=sys.executable, args=["-c", program], env={"A": "b"})
    with pytest.raises(AgentStartError, match=f"b {os.path.realpath(project)}") as caught:
        async with asyncio.timeout(30), start(launch, cwd=project):
            pass
    assert caught.value.status == 1


async def test_an_agent_that_cannot_be_started_says_why(home: Path) -> None:
    with pytest.raises(AgentStartError, match="no-such-agent"):
        async with start("no-such-agent --acp"):
            pass


async def test_the_end_of_an_agent_is_noticed_and_it_is_started_again_only_when_asked(project: Path) -> None:
    host = Host(preset="allow-reads")
    for _ in "12":
        async with asyncio.timeout(30), start({"command": COMMAND[0], "args": COMMAND[1:]}, host):
            session = await host.new_session(project)
            assert await answer(session, "fs/read_text_file", path=f"{project}/a.txt") == {
                "content": "one\ntwo\nthree\n"
            }
            ending = asyncio.create_task(host.ended())
            with pytest.raises(AgentExited):
                await answer(session, "die")
            why = await ending
            assert isinstance(why, AgentExited) and why.status == -9

"""Twelve conversations that any bridge to Claude must be able to hold; each is played to both."""

import asyncio
import contextlib
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

from ..anthropic_server import Conversation, Hold, text, thinking, tool
from .driver import Driver, Failed, Message

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
MCP_SERVER = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    match message["method"]:
        case "initialize":
            version = message["params"]["protocolVersion"]
            info = {"name": "small", "version": "1"}
            result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
        case "tools/list":
            schema = {"type": "object", "properties": {"word": {"type": "string"}}}
            result = {"tools": [{"name": "greet", "description": "Greets", "inputSchema": schema}]}
        case _:
            result = {"content": [{"type": "text", "text": "hello " + message["params"]["arguments"]["word"]}]}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""

Play = Callable[[Driver, Conversation, Path], Awaitable[None]]


async def opened(driver: Driver, work: Path, **members: Any) -> str:
    """The id of a new session, once its commands are there."""
    session = await driver.request("session/new", cwd=str(work), mcpServers=members.pop("servers", []), **members)
    await commands(driver)
    return str(session["sessionId"])


async def commands(driver: Driver) -> None:
    """Wait until the session's commands are there: where they come is no part of the comparison."""
    await driver.until(lambda message: kind(message) == "available_commands_update")


async def prompt(driver: Driver, session: str, *blocks: str | Message) -> Message:
    content = [{"type": "text", "text": block} if isinstance(block, str) else block for block in blocks]
    return await driver.request("session/prompt", sessionId=session, prompt=content)


def kind(message: Message) -> str | None:
    update = message.get("params", {}).get("update", {})
    name = update.get("sessionUpdate")
    return name if isinstance(name, str) else None


def choosing(*kinds: str) -> Callable[[Message], str | None]:
    """Answer permission requests, one after the other, with the first option of these kinds."""
    wanted: Iterator[str] = iter(kinds)

    def choose(params: Message) -> str | None:
        asked = next(wanted, "reject_once")
        return next((str(o["optionId"]) for o in params["options"] if o["kind"] == asked), "reject")

    return choose


async def words(driver: Driver, model: Conversation, work: Path) -> None:
    model.say(thinking("Let me ", "see."), text("Hel", "lo."))
    model.say(text("Again."))
    session = await opened(driver, work)
    await prompt(driver, session, "hello there")
    await prompt(driver, session, "and again")


async def plan(driver: Driver, model: Conversation, work: Path) -> None:
    for state in ("pending", "in_progress", "completed"):
        todo = {"content": "First", "activeForm": "Doing the first", "status": state}
        model.say(tool("TodoWrite", f"t_{state}", todos=[todo, {**todo, "content": "Second"}]))
    model.say(text("Done."))
    session = await opened(driver, work)
    await prompt(driver, session, "plan it")


async def edits(driver: Driver, model: Conversation, work: Path) -> None:
    file = work / "a.py"
    file.write_text("".join(f"line {n}\n" for n in range(30)))
    model.say(text("I look."), tool("Read", "t1", file_path=str(file), offset=2, limit=3))
    model.say(tool("Edit", "t2", file_path=str(file), old_string="line 3\n", new_string="LINE 3\n"))
    model.say(tool("Write", "t3", file_path=str(work / "b.py"), content="new\n"))
    model.say(tool("Edit", "t4", file_path=str(file), old_string="not there", new_string="x"))
    model.say(text("Done."))
    driver.choose = choosing("allow_once", "allow_once")
    session = await opened(driver, work)
    await prompt(driver, session, "change it")


async def shell(driver: Driver, model: Conversation, work: Path) -> None:
    model.say(
        tool("Bash", "t1", command="echo hi; echo oops >&2", description="Say hi"),
        tool("Bash", "t2", command="exit 3"),
    )
    model.say(tool("Bash", "t3", command="true"))
    model.say(text("Done."))
    driver.choose = choosing("allow_once", "allow_once", "allow_once")
    session = await opened(driver, work)
    await prompt(driver, session, "run it")


async def permissions(driver: Driver, model: Conversation, work: Path) -> None:
    for number in range(4):
        model.say(tool("Write", f"w{number}", file_path=str(work / f"{number}.txt"), content="x\n"))
    model.say(text("Written."))
    for number in range(2):
        model.say(tool("Bash", f"b{number}", command="exit 3"))
    model.say(text("Done."))
    driver.choose = choosing("reject_once", "allow_once", "allow_always", "allow_always")
    session = await opened(driver, work)
    await prompt(driver, session, "write")
    await driver.request("session/set_mode", sessionId=session, modeId="default")
    await prompt(driver, session, "run")


async def choices(driver: Driver, model: Conversation, work: Path) -> None:
    model.say(tool("Write", "t1", file_path=str(work / "a.txt"), content="x\n"))
    model.say(text("ok"))
    session = await opened(driver, work)
    await driver.request("session/set_mode", sessionId=session, modeId="acceptEdits")
    await prompt(driver, session, "write")
    for option, value in (("model", "sonnet"), ("effort", "high"), ("mode", "plan")):
        await driver.request("session/set_config_option", sessionId=session, configId=option, value=value)
    for refused in ({"configId": "model", "value": "no-such-model"}, {"configId": "colour", "value": "red"}):
        with contextlib.suppress(Failed):
            await driver.request("session/set_config_option", sessionId=session, **refused)
    await prompt(driver, session, "go")


async def planning(driver: Driver, model: Conversation, work: Path) -> None:
    model.say(tool("ExitPlanMode", "t1", plan="# The plan\n\n1. Do it"))
    model.say(tool("Write", "t2", file_path=str(work / "a.txt"), content="x\n"))
    model.say(text("Done."))
    session = await opened(driver, work)
    await driver.request("session/set_mode", sessionId=session, modeId="plan")
    driver.choose = choosing("allow_once", "allow_once")
    await prompt(driver, session, "plan")


async def cancelling(driver: Driver, model: Conversation, work: Path) -> None:
    hold = Hold()
    model.say(text("one "), hold, text("two"))
    session = await opened(driver, work)
    running = driver.request("session/prompt", sessionId=session, prompt=[{"type": "text", "text": "talk"}])
    task = asyncio.ensure_future(running)
    await driver.until(lambda message: kind(message) == "agent_message_chunk")
    driver.note("session/cancel", sessionId=session)
    await task
    hold.released.set()
    model.say(tool("Write", "t1", file_path=str(work / "x"), content="x"))
    driver.choose = lambda params: driver.note("session/cancel", sessionId=session)
    await prompt(driver, session, "write")
    model.say(text("Here."))
    await prompt(driver, session, "again")


async def loading(driver: Driver, model: Conversation, work: Path) -> None:
    file = work / "a.py"
    file.write_text("one\ntwo\n")
    model.say(thinking("Hm."), text("First."), tool("Read", "t1", file_path=str(file)))
    model.say(tool("Edit", "t2", file_path=str(file), old_string="two", new_string="TWO"))
    todo = {"content": "First", "activeForm": "Doing the first", "status": "in_progress"}
    model.say(tool("TodoWrite", "t3", todos=[todo]), tool("Bash", "t4", command="exit 3"))
    model.say(text("Done."))
    driver.choose = choosing("allow_once", "allow_once")
    session = await opened(driver, work)
    await prompt(driver, session, "change it")
    await driver.request("session/close", sessionId=session)
    driver.told.clear()
    await driver.request("session/load", sessionId=session, cwd=str(work), mcpServers=[])
    await commands(driver)
    model.say(text("Still here."))
    await prompt(driver, session, "are you there?")


async def keeping(driver: Driver, model: Conversation, work: Path) -> None:
    model.say(text("One."))
    session = await opened(driver, work)
    await prompt(driver, session, "first")
    driver.told.clear()
    fork = await driver.request("session/fork", sessionId=session, cwd=str(work), mcpServers=[])
    await commands(driver)
    model.say(text("Two."))
    await prompt(driver, fork["sessionId"], "second")
    await driver.request("session/list", cwd=str(work))
    await driver.request("session/delete", sessionId=session)
    await driver.request("session/list", cwd=str(work))
    with contextlib.suppress(Failed):
        await driver.request("session/load", sessionId=session, cwd=str(work), mcpServers=[])
    await driver.request("session/close", sessionId=fork["sessionId"])
    await driver.request("session/resume", sessionId=fork["sessionId"], cwd=str(work), mcpServers=[])
    model.say(text("Three."))
    await prompt(driver, fork["sessionId"], "third")


async def servers(driver: Driver, model: Conversation, work: Path) -> None:
    script = work / "server.py"
    script.write_text(MCP_SERVER)
    server = {"name": "small", "command": sys.executable, "args": [str(script)], "env": []}
    model.say(tool("mcp__small__greet", "t1", word="world"))
    model.say(tool("Agent", "t2", description="Look around", prompt="Look", subagent_type="general-purpose"))
    model.say(text("not for the user"), tool("Glob", "t3", pattern="*.py"))
    model.say(text("The report."))
    model.say(text("Done."))
    session = await opened(driver, work, servers=[server])
    await prompt(driver, session, "greet")


async def mentions(driver: Driver, model: Conversation, work: Path) -> None:
    own = work / ".claude" / "commands"
    own.mkdir(parents=True)
    (own / "greet.md").write_text("---\ndescription: Greets\nargument-hint: <name>\n---\nSay hello to $ARGUMENTS")
    model.say(text("A picture."))
    model.say(text("Hello Ada."))
    session = await opened(driver, work)
    await prompt(
        driver,
        session,
        "look at",
        {"type": "image", "data": PIXEL, "mimeType": "image/png"},
        {"type": "resource_link", "name": "a.py", "uri": f"file://{work}/a.py"},
        {"type": "resource", "resource": {"uri": "file:///b.py", "text": "print(1)"}},
    )
    await prompt(driver, session, "/greet Ada")
    await prompt(driver, session, "/context")


CONVERSATIONS: dict[str, Play] = {
    "text, thinking and usage": words,
    "a plan": plan,
    "files with diffs": edits,
    "commands": shell,
    "refused, allowed once, allowed for good": permissions,
    "modes, models, efforts": choices,
    "leaving plan mode": planning,
    "cancel while streaming and while asking": cancelling,
    "load with replay": loading,
    "fork, list, delete, resume": keeping,
    "an MCP server and a subagent": servers,
    "an image, a mention, slash commands": mentions,
}

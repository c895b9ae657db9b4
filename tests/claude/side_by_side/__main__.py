"""Plays the conversations to both bridges, and prints where they differ.

python -m claude.side_by_side NPM_FOLDER [WORDS]      only conversations whose names have one of the words
"""

import asyncio
import difflib
import hashlib
import json
import re
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..anthropic_server import AnthropicServer, Conversation
from .conversations import CONVERSATIONS
from .driver import Message, driving
from .meant import MEANT, comparable, plain

OURS = [str(Path(sys.executable).with_name("dragoman")), "agent", "claude"]
IDS = re.compile(r"\ba[0-9a-f]{16}\b|[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}|msg_\d{6}")
TIMES = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z")


async def played(
    name: str, argv: Sequence[str], server: AnthropicServer, place: Path
) -> tuple[list[str], list[str]]:
    """What a bridge said in a conversation, a line for each message, and what it asked of the model."""
    home, work = place / "home", place / "work"
    home.mkdir(parents=True)
    work.mkdir()
    model = server.conversation(place.as_posix().strip("/").replace("/", "_"))
    async with driving(argv, home, model.url) as driver:
        await CONVERSATIONS[name](driver, model, work)
        told = list(driver.told)
    return lines_of(comparable(name, told), place), asked(model, place)


def lines_of(told: Sequence[Message], place: Path) -> list[str]:
    """The messages without ids, times and places, which differ by themselves."""
    known: dict[str, str] = {}
    text = json.dumps(told, sort_keys=True).replace(str(place), "")
    text = IDS.sub(lambda id: known.setdefault(id[0], f"id {len(known)}"), TIMES.sub("a time", text))
    return [json.dumps(shortened(message), ensure_ascii=False) for message in json.loads(text)]


def asked(model: Conversation, place: Path) -> list[str]:
    """What the model was asked, without the list of tools and files that the program adds."""
    last = [request["messages"][-1] for request in model.requests]
    return lines_of([{"asked": plain(message)} for message in last if message["role"] != "system"], place)


def shortened(value: Any) -> Any:
    """A message with the beginnings of its texts only, and without members that are null."""
    if isinstance(value, str):
        return value if len(value) <= 120 else f"{value[:60]}… {hashlib.md5(value.encode()).hexdigest()[:8]}"
    if isinstance(value, list):
        return [shortened(item) for item in value]
    if isinstance(value, dict):
        return {name: shortened(item) for name, item in value.items() if item is not None}
    return value


async def main(npm: str, *wanted: str) -> int:
    different = 0
    theirs = ["node", str(Path(npm, "node_modules/@agentclientprotocol/claude-agent-acp/dist/index.js").resolve())]
    server = AnthropicServer()
    with tempfile.TemporaryDirectory() as folder:
        for number, name in enumerate(CONVERSATIONS):
            if wanted and not any(word in name for word in wanted):
                continue
            print(f"== {name}", flush=True)
            both = await asyncio.gather(
                *(
                    played(name, argv, server, Path(folder, side, str(number)))
                    for side, argv in (("npm", theirs), ("own", OURS))
                )
            )
            for then, now in zip(*both, strict=True):
                different += then != now
                for line in difflib.unified_diff(then, now, "npm", "ours", lineterm="", n=1):
                    print(line)
    server.close()
    print("differences that are meant:", *(f"{what}: {why}" for what, why in MEANT.items()), sep="\n- ")
    return min(different, 1)


if __name__ == "__main__":
    sys.exit(asyncio.run(main(*sys.argv[1:])))

"""A client in a process of its own, so that what is measured is the client and not the server beside it.

Each line of stdin is `{"url": …, "cancel": true|false}`: a prompt to that server.  Each line of stdout says how it
ended: `outcome` (the reason the turn ended for, or `error`), `said`, the `bytes` it took at most, what is `left`.
"""

import asyncio
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from leftovers import descriptors

from dragoman import Client, connect
from dragoman import schema as s
from dragoman.errors import Error


class Agreeing(Client):
    async def request_permission(self, params: s.RequestPermissionRequest) -> s.RequestPermissionResponse:
        return s.RequestPermissionResponse(
            outcome=s.SelectedPermissionOutcome(option_id=params.options[0].option_id)
        )


def memory(field):
    """Bytes of this process that /proc names so."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    raise AssertionError(field)


async def outcome_of_a_prompt(url, wants_cancel):
    """The reason the turn ended for, or `error`; and what was said before."""
    said = []
    try:
        async with connect(url, Agreeing()) as client:
            session = await client.new_session("/")
            turn = session.prompt("go")
            if wants_cancel:
                asyncio.get_running_loop().call_later(0.1, session.cancel)
            async for update in turn:
                if isinstance(update, s.AgentMessageChunk):
                    said.append(update.content.text)
            return turn.response.stop_reason, said
    except Error:
        return "error", said


async def measured(url, cancel):
    Path("/proc/self/clear_refs").write_text("5")  # the highest mark begins anew
    opened, resident = descriptors(), memory("VmRSS")
    outcome, said = await outcome_of_a_prompt(url, cancel)
    await asyncio.sleep(0)
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    left = [*map(repr, tasks), *map(repr, descriptors() - opened)]
    return {"outcome": outcome, "said": said, "bytes": memory("VmHWM") - resident, "left": left}


async def main():
    loop = asyncio.get_running_loop()
    await loop.run_in_executor(None, list)  # the executor's thread is there before anything is counted
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        print(json.dumps(await measured(**json.loads(line))), flush=True)


if __name__ == "__main__":
    asyncio.run(main())

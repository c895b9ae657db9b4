"""Commands an agent has run in its client's terminals: real processes, for the editors of both sides."""

import asyncio
import signal
from collections.abc import Mapping, Sequence


class Ending:
    """How a command ended: by itself with a code, or by a signal."""

    def __init__(self, status: int) -> None:
        self.code = status if status >= 0 else None
        self.signal = signal.Signals(-status).name if status < 0 else None


class RunningCommand:
    def __init__(self, process: asyncio.subprocess.Process, limit: int | None) -> None:
        self._process, self._limit = process, limit
        self._kept = b""
        self.is_truncated = False
        self._reading = asyncio.create_task(self._read())

    @property
    def output(self) -> str:
        return self._kept.decode(errors="ignore")  # a limit may cut a character in two

    @property
    def ending(self) -> Ending | None:
        status = self._process.returncode
        return Ending(status) if self._reading.done() and status is not None else None

    async def wait(self) -> Ending:
        await asyncio.shield(self._reading)
        return Ending(await self._process.wait())

    def kill(self) -> None:
        if self._process.returncode is None:
            self._process.kill()

    async def _read(self) -> None:
        assert self._process.stdout
        while data := await self._process.stdout.read(4096):
            self._kept += data
            if self._limit is not None and len(self._kept) > self._limit:
                self._kept, self.is_truncated = self._kept[-self._limit :], True


class CommandRunner:
    """Terminals by id; a released one is unknown, which is a KeyError."""

    def __init__(self) -> None:
        self._commands: dict[str, RunningCommand] = {}
        self._count = 0

    def __getitem__(self, id: str) -> RunningCommand:
        return self._commands[id]

    def __len__(self) -> int:
        return len(self._commands)

    async def start(
        self, command: str, args: Sequence[str], env: Mapping[str, str], cwd: str | None, limit: int | None
    ) -> str:
        process = await asyncio.create_subprocess_exec(
            command,
            *args,
            env=dict(env),
            cwd=cwd,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        self._count += 1
        id = f"terminal-{self._count}"
        self._commands[id] = RunningCommand(process, limit)
        return id

    async def release(self, id: str) -> None:
        command = self._commands.pop(id)
        command.kill()
        await command.wait()

    async def close(self) -> None:
        """End what nobody released."""
        for id in list(self._commands):
            await self.release(id)

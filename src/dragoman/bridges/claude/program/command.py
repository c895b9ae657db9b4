"""The `claude` program run for the user: in their terminal (`--cli`), and to log out."""

import asyncio
import os
from collections.abc import Sequence
from typing import NoReturn

from ....errors import InternalError
from .launch import claude_program, policy_environment
from .running import inherited_environment

LOGOUT_TIMEOUT = 30.0


def become_claude(arguments: Sequence[str]) -> NoReturn:
    """Replace this process by the `claude` program, which gets the terminal and signals."""
    program = claude_program()
    os.execve(program, [program, *arguments], {**inherited_environment(), **policy_environment()})


async def log_out() -> None:
    """End the user's login; raises InternalError if the program refuses."""
    process = await asyncio.create_subprocess_exec(
        *(claude_program(), "auth", "logout"),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**inherited_environment(), **policy_environment()},
    )
    try:
        async with asyncio.timeout(LOGOUT_TIMEOUT):
            said, _ = await process.communicate()
    except BaseException as exc:
        process.kill()
        await process.wait()
        if isinstance(exc, TimeoutError):
            raise InternalError("claude auth logout took too long") from None
        raise
    if process.returncode:
        raise InternalError(f"claude auth logout failed: {said.decode(errors='replace').strip()[:500]}")

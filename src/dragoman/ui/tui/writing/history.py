"""The user's earlier prompts, kept for later sessions."""

import contextlib
import json
import os
from pathlib import Path

from ....foundation.directories import state_directory

MOST = 500  # prompts
LONGEST = 20_000  # characters; longer prompts are not stored


class PromptHistory:
    """Earlier prompts, the latest last; stored in a file that only the user can read."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path or state_directory() / "tui" / "history.jsonl"
        self.prompts: list[str] = []
        with contextlib.suppress(OSError, ValueError):
            kept = [json.loads(each) for each in self._path.read_text().splitlines()[-MOST:]]
            self.prompts = [prompt for prompt in kept if isinstance(prompt, str)]

    def add(self, prompt: str) -> None:
        """Add a prompt, unless it equals the last one."""
        if prompt in self.prompts[-1:]:
            return
        self.prompts = [*self.prompts, prompt][-MOST:]
        if len(prompt) > LONGEST:
            return
        with contextlib.suppress(OSError):  # the history is a convenience, so write errors are ignored
            self._path.parent.mkdir(parents=True, exist_ok=True)
            file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            with open(file, "a") as out:
                out.write(json.dumps(prompt) + "\n")

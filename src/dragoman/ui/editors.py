"""What makes an agent appear in an editor, in the words of that editor's configuration."""

import json
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from ..host.processes import Launch


class Start(Struct, frozen=True):
    """An agent as an editor starts it: by a full path, for editors have a PATH of their own."""

    name: str
    title: str
    command: str
    args: tuple[str, ...]
    env: Mapping[str, str]

    @property
    def entry(self) -> dict[str, Any]:
        """The three fields all JSON configurations have in common."""
        return {"command": self.command, "args": list(self.args), "env": dict(self.env)}


def configuration(editor: str, agent: Launch) -> tuple[str, str]:
    """Where it goes, and what goes there."""
    where, write = EDITORS[editor]
    return where, write(_start(agent))


def _start(agent: Launch) -> Start:
    own = Path(sys.executable).with_name("dragoman")
    if agent.command == "dragoman" and own.exists():
        argv = [str(own), *agent.args]
    else:
        argv = agent.argv
        argv[0] = shutil.which(argv[0]) or argv[0]
    return Start(agent.name, agent.title or agent.name, argv[0], tuple(argv[1:]), agent.env)


def _zed(start: Start) -> str:
    return _json({"agent_servers": {start.title: {"type": "custom", **start.entry}}})


def _jetbrains(start: Start) -> str:
    return _json({"agent_servers": {start.title: start.entry}})


def _vscode(start: Start) -> str:
    return _json({"acp.agents": {start.title: start.entry}})


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


def _neovim(start: Start) -> str:
    settings = [f"{name}={value}" for name, value in start.env.items()]
    words = ["env", *settings] if settings else []  # variables of an adapter are something else there
    command = ", ".join(map(_quoted, [*words, start.command, *start.args]))
    return f"""require("codecompanion").setup({{
  adapters = {{
    acp = {{
      [{_quoted(start.name)}] = function()
        -- any adapter that does not log in by itself will do to begin with
        return require("codecompanion.adapters").extend("opencode", {{
          name = {_quoted(start.name)},
          formatted_name = {_quoted(start.title)},
          commands = {{ default = {{ {command} }} }},
        }})
      end,
    }},
  }},
}})"""


def _emacs(start: Start) -> str:
    words = " ".join(map(_quoted, start.args))
    env = " ".join(_quoted(f"{name}={value}") for name, value in start.env.items())
    return f"""(with-eval-after-load 'agent-shell
  (add-to-list
   'agent-shell-agent-configs
   (agent-shell-make-agent-config
    :identifier (intern {_quoted(start.name)})
    :mode-line-name {_quoted(start.title)}
    :buffer-name {_quoted(start.title)}
    :shell-prompt {_quoted(f"{start.title}> ")}
    :shell-prompt-regexp (regexp-quote {_quoted(f"{start.title}> ")})
    :client-maker (lambda (buffer)
                    (acp-make-client :command {_quoted(start.command)}
                                     :command-params '({words})
                                     :environment-variables '({env})
                                     :context-buffer buffer)))))"""


def _quoted(text: str) -> str:
    """A string as both Lua and Lisp read it."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


EDITORS: dict[str, tuple[str, Callable[[Start], str]]] = {
    "zed": (
        "Zed: put this into ~/.config/zed/settings.json (zed: open settings file), beside what is there:",
        _zed,
    ),
    "jetbrains": ("JetBrains IDEs: put this into ~/.jetbrains/acp.json (AI Chat, Add Custom Agent):", _jetbrains),
    "neovim": (
        "Neovim with CodeCompanion: put this into your init.lua, then press ga in a chat to choose it:",
        _neovim,
    ),
    "emacs": ("Emacs with agent-shell: put this into your init.el, then run M-x agent-shell:", _emacs),
    "vscode": ("VS Code with the extension ACP Client: put this into your settings.json:", _vscode),
}

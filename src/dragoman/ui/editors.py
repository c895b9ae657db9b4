"""The configuration of each editor that adds an agent to it."""

import json
from collections.abc import Callable, Mapping

from msgspec import Struct

from ..foundation.documents import Document, Json
from ..foundation.programs import beside_python, find_program
from ..host.processes import Launch


class EditorStart(Struct, frozen=True):
    """How an editor starts an agent: by a full path, because editors have a PATH of their own."""

    name: str
    title: str
    command: str
    args: tuple[str, ...]
    env: Mapping[str, str]

    @property
    def entry(self) -> Document:
        """The three fields that all JSON configurations share."""
        return {"command": self.command, "args": list(self.args), "env": dict(self.env)}


def configuration(editor: str, agent: Launch) -> tuple[str, str]:
    """The place of the configuration, and its text."""
    where, write = EDITORS[editor]
    return where, write(_start(agent))


def _start(agent: Launch) -> EditorStart:
    own = beside_python("dragoman") if agent.command == "dragoman" else None
    if own:
        argv = [own, *agent.args]
    else:
        argv = agent.argv
        argv[0] = find_program(argv[0]) or argv[0]
    return EditorStart(agent.name, agent.title or agent.name, argv[0], tuple(argv[1:]), agent.env)


def _zed(start: EditorStart) -> str:
    return _json({"agent_servers": {start.title: {"type": "custom", **start.entry}}})


def _jetbrains(start: EditorStart) -> str:
    return _json({"agent_servers": {start.title: start.entry}})


def _vscode(start: EditorStart) -> str:
    return _json({"acp.agents": {start.title: start.entry}})


def _json(value: Json) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


def _neovim(start: EditorStart) -> str:
    settings = [f"{name}={value}" for name, value in start.env.items()]
    words = ["env", *settings] if settings else []  # an adapter's variables mean something else there
    command = ", ".join(map(_lua, [*words, start.command, *start.args]))
    return f"""require("codecompanion").setup({{
  adapters = {{
    acp = {{
      [{_lua(start.name)}] = function()
        -- any adapter that does not log in by itself will do to begin with
        return require("codecompanion.adapters").extend("opencode", {{
          name = {_lua(start.name)},
          formatted_name = {_lua(start.title)},
          commands = {{ default = {{ {command} }} }},
        }})
      end,
    }},
  }},
}})"""


def _emacs(start: EditorStart) -> str:
    words = " ".join(map(_lisp, start.args))
    env = " ".join(_lisp(f"{name}={value}") for name, value in start.env.items())
    return f"""(with-eval-after-load 'agent-shell
  (add-to-list
   'agent-shell-agent-configs
   (agent-shell-make-agent-config
    :identifier (intern {_lisp(start.name)})
    :mode-line-name {_lisp(start.title)}
    :buffer-name {_lisp(start.title)}
    :shell-prompt {_lisp(f"{start.title}> ")}
    :shell-prompt-regexp (regexp-quote {_lisp(f"{start.title}> ")})
    :client-maker (lambda (buffer)
                    (acp-make-client :command {_lisp(start.command)}
                                     :command-params '({words})
                                     :environment-variables '({env})
                                     :context-buffer buffer)))))"""


def _lua(text: str) -> str:
    return _quoted(text, "\\{:03d}")


def _lisp(text: str) -> str:
    return _quoted(text, "\\{:03o}")


def _quoted(text: str, number: str) -> str:
    """A string literal for Lua and Lisp; they write the number of a control character differently."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return (
        '"'
        + "".join(char if char >= " " and char != "\x7f" else number.format(ord(char)) for char in escaped)
        + '"'
    )


EDITORS: dict[str, tuple[str, Callable[[EditorStart], str]]] = {
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

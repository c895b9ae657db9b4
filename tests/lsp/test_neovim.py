"""Neovim's own language client drives agents through `dragoman lsp`."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from patience import PATIENCE

from .test_editor import AGENT, TEXT

pytestmark = pytest.mark.skipif(
    not shutil.which("nvim"), reason="neovim is not installed (scripts/test-programs does)"
)
PAGE = Path(__file__).parents[2] / "docs" / "programs" / "lsp.md"

PRELUDE = """
local function wait(what, done)
  if not vim.wait(%(milliseconds)d, done, 50) then print('NEVER: ' .. what); vim.cmd('cquit') end
end
vim.lsp.start = vim.lsp.start or function(config) -- which Neovim has since 0.8
  local id = vim.lsp.start_client(config)
  vim.lsp.buf_attach_client(0, id)
  return id
end
local function codes()
  wait('diagnostics', function() return #vim.diagnostic.get(0) > 0 end)
  local found = {}
  for _, each in ipairs(vim.diagnostic.get(0)) do table.insert(found, each.code) end
  table.sort(found)
  return table.concat(found, ' ')
end
local function started()
  local config = { name = 'dragoman', cmd = %(command)s, root_dir = vim.fn.getcwd() }
  return vim.lsp.get_client_by_id(vim.lsp.start(config))
end
local function stop()
  for _, client in pairs(vim.lsp.get_active_clients()) do
    client.stop()
    wait('end', function() return client.is_stopped() end)
  end
  vim.cmd('qall!')
end
"""
FIX = """
vim.lsp.handlers['window/showMessageRequest'] = function(_, params)
  for _, action in ipairs(params.actions) do
    if action.title == '%(answer)s' then return action end
  end
  return vim.NIL
end
local client = started()
print('found ' .. codes())
vim.api.nvim_win_set_cursor(0, { 5, 11 })
local params = vim.lsp.util.make_range_params()
params.context = { diagnostics = { { range = params.range, message = 'undefined name nmae' } } }
local actions = client.request_sync('textDocument/codeAction', params, %(milliseconds)d).result
print(actions[1].title)
local done = client.request_sync('workspace/executeCommand', actions[1].command, %(milliseconds)d)
print(done.err and 'failed' or done.result)
print(vim.api.nvim_buf_get_lines(0, 4, 5, false)[1])
stop()
"""
CANCEL = """
local token, outcome
vim.lsp.handlers['$/progress'] = function(_, params) token = params.token end
local client = started()
wait('initialization', function() return client.initialized end)
local function chat(text)
  token, outcome = nil, nil
  local order = { command = 'dragoman.chat', arguments = { text } }
  client.request('workspace/executeCommand', order, function(err, result)
    outcome = err and err.message or result
  end)
end
chat('wait')
wait('progress', function() return token end)
client.notify('window/workDoneProgress/cancel', { token = token })
wait('answer', function() return outcome end)
print(outcome)
chat('hello')
wait('answer', function() return outcome end)
print(outcome)
stop()
"""


def neovim(file: Path, directory: Path, script: str, **words: object) -> list[str]:
    """What Neovim, with a file open, prints of a script."""
    command = [sys.executable, "-I", "-m", "dragoman", "lsp", "--agent", AGENT]
    words |= {
        "milliseconds": PATIENCE * 1000 / 3,
        "command": "{" + ", ".join(f"[[{word}]]" for word in command) + "}",
    }
    drive = directory / "drive.lua"
    drive.write_text(PRELUDE % words + script % words)
    homes = {name: str(directory / name) for name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME")}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["nvim", "--headless", "-u", "NONE", "-i", "NONE", "-n", file.name, "-c", f"luafile {drive}"],
        cwd=file.parent,
        env={**os.environ, **homes, "PATH": path},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    return [line.rstrip() for line in done.stderr.replace("\r", "").splitlines()]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    path = tmp_path / "work" / "a.py"
    path.write_text(TEXT)
    return path


@pytest.mark.parametrize(("answer", "last"), [("Allow once", "    return name"), ("Deny", "    return nmae")])
def test_neovim_has_an_agent_without_a_plugin(file: Path, tmp_path: Path, answer: str, last: str) -> None:
    told = neovim(file, tmp_path, FIX, answer=answer)
    assert told[0].startswith("found ") and "F821" in told[0]
    assert told[1].startswith("Fix this with ")
    assert ("failed" in told) == (answer == "Deny")
    assert told[-1] == last
    assert file.read_text() == TEXT


def test_neovim_cancels_a_turn_and_has_the_next_one(file: Path, tmp_path: Path) -> None:
    assert neovim(file, tmp_path, CANCEL) == ["the turn was cancelled", "You said: hello"]


def test_the_lines_of_the_page_show_what_is_wrong_with_a_file(file: Path, tmp_path: Path) -> None:
    (block,) = PAGE.read_text().split("```lua\n")[1:]
    (found,) = neovim(file, tmp_path, "%(lines)s\nprint(codes())\nstop()\n", lines=block.partition("```")[0])
    assert "F821" in found.split()

"""Every option of `dragoman serve` reaches the gateway that it is about, and none is forgotten here."""

import argparse
import sys
from pathlib import Path
from typing import Any

import pytest

from dragoman.cli import parser
from dragoman.gateway import serving
from dragoman.gateway.operations.log_lines import JsonLines
from dragoman.gateway.options import ServeOptions

HASH = "a" * 64
AGENT = f"one={sys.executable} -m dragoman agent testy"
WALLED = ("--isolate", "--workspace", "{principal}")


# To isolate takes a directory for each person, and puts commands in a sandbox, too.
ALSO = {
    "--workspace": ("--workspace", "--isolate"),
    "--sandbox": ("--sandbox", "--isolate"),
    "--isolate": ("--isolate",),
    "--trusted-proxy": ("--trusted-proxy", "--proxy-protocol"),
}


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """What a gateway would be started with by these words."""
    found: list[ServeOptions] = []
    formats: list[object] = []

    async def serve(order: ServeOptions, ready: object, reread: object) -> None:
        found.append(order)

    monkeypatch.setattr(serving, "serve", serve)
    monkeypatch.setattr("dragoman.cli.hosting.logs.log_to_stderr", lambda form=None: formats.append(form))
    monkeypatch.chdir(tmp_path)
    for name in ("MINE_A", "ELSE"):
        monkeypatch.setenv(name, "set")

    def started(*words: str) -> tuple[ServeOptions, object]:
        arguments = parser().parse_args(["serve", "--agent", AGENT, *words])
        assert arguments.command(arguments) == 0
        return found.pop(), formats.pop()

    return started


def hosted(order: ServeOptions) -> Any:
    return order.agents["one"]


# Each option: what follows `serve`, how to read what it controls, its value without the option and with it.
FLAGS: dict[str, tuple[tuple[str, ...], Any, object, object]] = {
    "--agent": (("--agent", AGENT.replace("one", "two", 1)), lambda o: sorted(o.agents), ["one"], ["one", "two"]),
    "--listen": (("--listen", "0.0.0.0:99"), lambda o: (o.host, o.port), ("127.0.0.1", 8765), ("0.0.0.0", 99)),
    "--state": (
        ("--state", "here"),
        lambda o: (o.state == Path("here"), hosted(o).state == "here/host"),
        (False, False),
        (True, True),
    ),
    "--socket-group": (("--socket-group", "users"), lambda o: o.socket_group, "", "users"),
    "--socket-user": (("--socket-user", "0=root"), lambda o: o.socket_users, {}, {0: "root"}),
    "--token-file": (("--token-file", "f"), lambda o: o.tokens, None, Path("f")),
    "--no-auth": (("--no-auth",), lambda o: o.is_open, False, True),
    "--tls": (("--tls", "cert", "key"), lambda o: o.tls, None, ("cert", "key")),
    "--client-ca": (("--client-ca", "ca"), lambda o: o.client_ca, None, "ca"),
    "--jwt": (
        ("--jwt", "issuer", "audience", "https://localhost/keys"),
        lambda o: o.signed and (o.signed._issuer, o.signed._audience, o.signed._place),
        None,
        ("issuer", "audience", "https://localhost/keys"),
    ),
    "--host": (("--host", "a:1", "--host", "b:2"), lambda o: o.names, [], ["a:1", "b:2"]),
    "--origin": (("--origin", "https://a"), lambda o: o.origins, [], ["https://a"]),
    "--workspace": (("--workspace", "{principal}"), lambda o: o.workspace, ".", "{principal}"),
    "--lend": (("--lend", "client"), lambda o: hosted(o).workspace, "host", "client"),
    "--permissions": (("--permissions", "deny"), lambda o: hosted(o).preset, "ask", "deny"),
    "--sandbox": (("--sandbox",), lambda o: hosted(o).sandbox, False, True),
    "--isolate": (
        WALLED,
        lambda o: (hosted(o).isolated, hosted(o).apart),
        (False, True),
        (True, False),
    ),
    "--pass-env": (
        ("--pass-env", "MINE_*"),
        lambda o: [name for name in ("MINE_A", "ELSE", "HOME") if name in hosted(o).env],
        ["MINE_A", "ELSE", "HOME"],
        ["MINE_A", "HOME"],
    ),
    "--visible": (("--visible", "/a", "--visible", "/b"), lambda o: hosted(o).visible, [], ["/a", "/b"]),
    "--network": (("--network", "a,b:2"), lambda o: list(hosted(o).network), [], ["a", "b:2"]),
    "--process-per": (("--process-per", "session"), lambda o: hosted(o).process_per, "principal", "session"),
    "--mcp-command": (("--mcp-command", HASH), lambda o: o.mcp_commands, [], [HASH]),
    "--max-sessions": (("--max-sessions", "7"), lambda o: o.limits.sessions_each, 100, 7),
    "--max-turn": (("--max-turn", "7"), lambda o: o.limits.turn_seconds, 3600.0, 7.0),
    "--detached": (("--detached", "7"), lambda o: o.detached.cancel_after, None, 7.0),
    "--limit": (("--limit", "queue=7"), lambda o: o.limits.queue, 32, 7),
    "--trusted-proxy": (("--trusted-proxy", "10.0.0.0/8"), lambda o: list(o.proxies), [], ["10.0.0.0/8"]),
    "--proxy-protocol": (
        ("--proxy-protocol", "--trusted-proxy", "10.0.0.0/8"),
        lambda o: o.proxy_protocol,
        False,
        True,
    ),
    "--take-over": (("--take-over",), lambda o: o.takes_over, False, True),
    "--drain": (("--drain", "7"), lambda o: o.drain, 3.0, 7.0),
    "--durability": (("--durability", "process"), lambda o: o.level, "power", "process"),
    "--keep-days": (("--keep-days", "7"), lambda o: o.retention.seconds, None, 7 * 86400.0),
    "--keep-sessions": (("--keep-sessions", "7"), lambda o: o.retention.sessions, None, 7),
    "--keep-bytes": (("--keep-bytes", "7K"), lambda o: o.retention.bytes, None, 7 * 1024),
}


def test_each_option_reaches_what_it_controls_and_nothing_else(served: Any) -> None:
    orders = {flag: served(*words)[0] for flag, (words, *_) in FLAGS.items()}
    orders["none"] = served()[0]
    for flag, (_, read, before, after) in FLAGS.items():
        reached = {name: read(order) for name, order in orders.items() if read(order) != before}
        expected = dict.fromkeys(ALSO.get(flag, (flag,)), after)
        assert reached == expected, flag


def test_the_log_is_text_unless_json_is_wanted(served: Any) -> None:
    assert served()[1] is None
    for flag in ("--log-format", "--log"):
        assert isinstance(served(flag, "json")[1], JsonLines)


def test_no_option_is_left_out() -> None:
    (commands,) = (a for a in parser()._actions if isinstance(a, argparse._SubParsersAction))
    there = {option for action in commands.choices["serve"]._actions for option in action.option_strings}
    elsewhere = {
        "--log-format",
        "--log",
        "--access-log",
        "--config",
    }  # `test_configuration.py` and `test_watching.py`
    assert there - {"-h", "--help"} - elsewhere == set(FLAGS)


@pytest.mark.parametrize(
    "words", [("--isolate",), ("--workspace", "nowhere"), ("--listen", "8765"), ("--listen", "a:65536")]
)
def test_what_cannot_be_served_is_refused_before_anything_starts(
    words: tuple[str, ...], served: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(AssertionError):
        served(*words)
    assert words[0] in capsys.readouterr().err

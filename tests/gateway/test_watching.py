"""What a monitoring system sees of a gateway: probes, metrics, log lines."""

import asyncio
import http.client
import json
import re
import shutil
from collections import namedtuple
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml
from patience import PATIENCE

from dragoman import connect
from dragoman.gateway.agents.upstream import Hosted
from dragoman.gateway.serving import ServeOptions, serving
from dragoman.testing import Testy

from .house import Watcher, until
from .test_commands import served

pytestmark = pytest.mark.usefixtures("nothing_left")

DEPLOY = Path(__file__).parents[2] / "examples" / "deploy"
NAME = re.compile(r"\b((?:dragoman|process)_[a-z_]+)\b")


def get(url: str, path: str, headers: dict[str, str], method: str = "GET") -> tuple[int, str]:
    address = urlsplit(url)
    line = http.client.HTTPConnection(str(address.hostname), address.port, timeout=PATIENCE)
    try:
        line.request(method, path, headers=headers)
        answer = line.getresponse()
        return answer.status, answer.read().decode()
    finally:
        line.close()


async def probed(url: str, path: str, method: str = "GET") -> tuple[int, str]:
    return await asyncio.to_thread(get, url, path, {"Host": "10.1.2.3:8765"}, method)


async def test_a_gateway_is_ready_while_it_can_write_and_does_not_drain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = 10**12
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(room, 0, room))
    monkeypatch.setattr("dragoman.gateway.gateway.CHECK_EVERY", 0.01)
    options = ServeOptions(agents={"testy": Hosted(target=Testy)}, state=tmp_path / "state", is_open=True)
    async with serving(options, lambda: None) as (gateway, url):
        assert await probed(url, "/readyz") == (200, "ready\n")
        assert await probed(url, "/readyz", "HEAD") == (200, "")
        room = 1024  # the volume is full
        await until(lambda: gateway.unready())
        assert await probed(url, "/readyz") == (503, "not ready\n")
        assert await probed(url, "/healthz") == (200, "ok\n")
        assert "is full" in " ".join(gateway.unready())
        room = 10**12
        await until(lambda: not gateway.unready())
        monkeypatch.setattr(gateway.engine, "put_fact", broken)  # the engine fails
        await until(lambda: gateway.unready())
        assert (await probed(url, "/readyz"))[0] == 503
        monkeypatch.undo()
        await until(lambda: not gateway.unready())
        gateway.is_draining = True
        assert (await probed(url, "/readyz"))[0] == 503
        assert (await probed(url, "/metrics"))[0] == 421  # a probe's name opens nothing else


async def broken(*_: object) -> None:
    raise OSError("the disk is gone")


async def test_the_dashboard_and_the_alerts_use_names_that_a_gateway_exports(tmp_path: Path) -> None:
    options = ServeOptions(agents={"testy": Hosted(target=Testy)}, state=tmp_path / "state", is_open=True)
    watcher = Watcher()
    async with serving(options, lambda: None) as (gateway, url), connect(url, watcher):
        session = await watcher.new_session(tmp_path)
        await session.prompt("hello")
        text = gateway.metrics.text()
    exported = set(re.findall(r"^([a-z_]+)(?:\{| )", text, re.MULTILINE))
    announced = set(re.findall(r"^# TYPE (\S+)", text, re.MULTILINE))
    alerts = (DEPLOY / "alerts.yml").read_text()
    guide = (DEPLOY.parents[1] / "docs" / "guide" / "operations.md").read_text()
    used = {name for text in ((DEPLOY / "grafana.json").read_text(), alerts, guide) for name in NAME.findall(text)}
    assert used <= exported | announced, used - exported - announced
    for name in ("dragoman_turns_running", "dragoman_questions_open", "dragoman_prompts_queued"):
        assert f"{name} 0" in text.splitlines()
    assert 'dragoman_agent_starts_total{agent="testy"} 1' in text.splitlines()
    for name in ("log_commit_seconds", "append_seconds", "turn_seconds"):
        (count,) = re.findall(rf"^dragoman_{name}_count (\d+)$", text, re.MULTILINE)
        assert int(count) > 0, name
    assert re.search(r'^dragoman_build_info\{version="[^"]+",python="3\.[^"]+"\} 1$', text, re.MULTILINE)
    assert session.id not in text and str(tmp_path) not in text
    rules = [rule for group in yaml.safe_load(alerts)["groups"] for rule in group["rules"]]
    assert all({"alert", "expr", "labels", "annotations"} <= rule.keys() for rule in rules)
    chapters = {title.lower().replace(" ", "-") for title in re.findall(r"^### (.+)$", guide, re.MULTILINE)}
    assert {rule["annotations"]["runbook"] for rule in rules} <= chapters
    panels = json.loads((DEPLOY / "grafana.json").read_text())["panels"]
    assert len({panel["title"] for panel in panels}) == len(panels)


async def test_log_lines_say_whose_request_and_which_session_and_no_secret(tmp_path: Path) -> None:
    state = tmp_path / "state"
    watcher = Watcher()
    async with served(state, "--access-log") as (url, process):
        token = (state / "local.token").read_text()
        async with connect(url, watcher, headers={"Authorization": f"Bearer {token}"}), asyncio.timeout(PATIENCE):
            session = await watcher.new_session(tmp_path)
            await session.prompt("the prompt nobody may log")
        assert (await asyncio.to_thread(get, url, "/acp?token=dgm_secret", {"Host": "elsewhere"}))[0] == 421
        process.terminate()
        assert process.stderr
        async with asyncio.timeout(PATIENCE):
            log = await process.stderr.read()
    lines = [json.loads(line) for line in log.splitlines()]
    (prompted,) = [line for line in lines if line.get("method") == "session/prompt"]
    assert (prompted["session"], prompted["principal"], prompted["outcome"]) == (session.id, "local", "answered")
    assert prompted["milliseconds"] > 0 and prompted["request"]
    (opened,) = [line for line in lines if line["message"].startswith("WEBSOCKET /acp")]
    assert (opened["outcome"], opened["principal"], opened["peer"]) == (101, "local", "127.0.0.1")
    assert [line["outcome"] for line in lines if line["message"].startswith("GET /acp")] == [421]
    assert token.encode() not in log and b"dgm_secret" not in log and b"nobody may log" not in log

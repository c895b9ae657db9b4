"""What whoever runs a gateway sees of it, and does to it while it runs."""

import asyncio
import os
import signal
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from patience import PATIENCE

from dragoman import Agent
from dragoman.errors import RpcError
from dragoman.gateway.agents.upstream import Hosted
from dragoman.gateway.serving import ServeOptions, serving
from dragoman.testing import Testy

from .certificates import Authority
from .house import hosting

pytestmark = pytest.mark.usefixtures("nothing_left")

TRACE = "0af7651916cd43dd8448eb211c80319c"


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    yield exporter
    provider.shutdown()


class Traced(Agent):
    """Says which span it was told to belong to."""

    async def answer(self, turn: Any) -> None:
        if turn.text == "fail":
            raise RpcError.of(-32011, "as asked")
        await turn.say(str((turn.meta or {}).get("traceparent")))


async def test_a_turn_is_a_span_between_its_client_s_and_its_agent_s(
    tmp_path: Path, spans: InMemorySpanExporter
) -> None:
    async with hosting(tmp_path, Traced) as house, house.visit() as ann:
        session = await ann.new_session(tmp_path)
        await session.prompt("hello", meta={"traceparent": f"00-{TRACE}-b7ad6b7169203331-01"})
        with pytest.raises(RpcError):
            await session.prompt("fail")
        turn, failed = spans.get_finished_spans()
        assert (turn.name, turn.attributes["dragoman.session"]) == ("turn", session.id)
        assert turn.context.trace_id == int(TRACE, 16) and turn.parent.span_id == 0xB7AD6B7169203331
        assert f"00-{TRACE}-{turn.context.span_id:016x}-01".encode() in b"".join(ann.told[session.id])
        assert [span.attributes["dragoman.outcome"] for span in (turn, failed)] == ["answered", "failed"]


async def test_a_new_certificate_is_used_without_a_restart_and_without_a_drop(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    order = ServeOptions(
        agents={"testy": Hosted(target=Testy)}, state=tmp_path / "state", tls=authority.server, is_open=True
    )
    context = ssl.create_default_context(cafile=authority.certificate)

    async def dial(port: int) -> tuple[int, asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
        return writer.get_extra_info("peercert")["serialNumber"], reader, writer

    async with serving(order, lambda: None) as (_, url), asyncio.timeout(PATIENCE):
        port = int(url.rpartition(":")[2].partition("/")[0])
        before, reader, writer = await dial(port)
        authority.issue("server")
        os.kill(os.getpid(), signal.SIGHUP)
        await asyncio.sleep(0)  # the signal is handled in the loop's next round
        after, _, other = await dial(port)
        assert after != before
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost:%d\r\nConnection: close\r\n\r\n" % port)
        assert b"200" in await reader.read()  # the connection that was there before is as it was
        for open_writer in (writer, other):
            open_writer.close()
            await open_writer.wait_closed()

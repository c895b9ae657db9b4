"""Spans for OpenTelemetry, where it is installed; nothing where it is not.

Who asks may say in `_meta` which span of theirs a prompt belongs to, as W3C Trace Context writes it; the agent is
told in the same way that it belongs to ours.
"""

import contextlib
from collections.abc import Iterator, Mapping

try:
    from opentelemetry import trace
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ImportError:
    trace = None  # type: ignore[assignment]

TRACE = ("traceparent", "tracestate")


@contextlib.contextmanager
def span(name: str, attributes: Mapping[str, str], caller: Mapping[str, str] | None = None) -> Iterator[None]:
    """Have a block traced, as a part of the caller's trace if it named one."""
    if trace is None:
        yield
        return
    context = TraceContextTextMapPropagator().extract(dict(caller or {}))
    tracer = trace.get_tracer("dragoman.gateway")
    with tracer.start_as_current_span(name, context, attributes=dict(attributes)):
        yield


def describe(**attributes: str) -> None:
    """Add what has become known to the span that is under way."""
    if trace is not None:
        trace.get_current_span().set_attributes({f"dragoman.{name}": value for name, value in attributes.items()})


def onward() -> dict[str, str]:
    """What the next in line is to be told of the span that is under way; nothing when there is none."""
    told: dict[str, str] = {}
    if trace is not None:
        TraceContextTextMapPropagator().inject(told)
    return told

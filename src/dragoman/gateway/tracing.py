"""Spans for OpenTelemetry, if it is installed.

A client may name its span in `_meta` of a prompt, in the form of W3C Trace Context; the agent gets our span in the
same way.
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
    """Trace a block, as a part of the caller's trace if it named one."""
    if trace is None:
        yield
        return
    context = TraceContextTextMapPropagator().extract(dict(caller or {}))
    tracer = trace.get_tracer("dragoman.gateway")
    with tracer.start_as_current_span(name, context, attributes=dict(attributes)):
        yield


def describe(**attributes: str) -> None:
    """Add attributes to the current span."""
    if trace is not None:
        trace.get_current_span().set_attributes({f"dragoman.{name}": value for name, value in attributes.items()})


def onward() -> dict[str, str]:
    """The trace context of the current span for the agent; empty if there is none."""
    told: dict[str, str] = {}
    if trace is not None:
        TraceContextTextMapPropagator().inject(told)
    return told

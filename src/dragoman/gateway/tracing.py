"""Spans for OpenTelemetry, where it is installed; nothing where it is not."""

import contextlib
from collections.abc import Mapping
from typing import Any

try:
    from opentelemetry import trace
except ImportError:
    trace = None  # type: ignore[assignment]


def span(name: str, attributes: Mapping[str, str]) -> contextlib.AbstractContextManager[Any]:
    """Have a block traced."""
    if trace is None:
        return contextlib.nullcontext()
    return trace.get_tracer("dragoman.gateway").start_as_current_span(name, attributes=dict(attributes))

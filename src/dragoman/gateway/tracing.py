"""Spans for OpenTelemetry, where it is installed; nothing where it is not."""

import contextlib
import functools
from collections.abc import Mapping
from typing import Any


@functools.cache
def _tracer() -> Any:
    try:
        from opentelemetry import trace
    except ImportError:
        return None
    return trace.get_tracer("dragoman.gateway")


def span(name: str, attributes: Mapping[str, str]) -> contextlib.AbstractContextManager[Any]:
    """Have a block traced."""
    tracer = _tracer()
    if tracer is None:
        return contextlib.nullcontext()
    return tracer.start_as_current_span(name, attributes=dict(attributes))  # type: ignore[no-any-return]

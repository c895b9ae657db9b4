"""Any message we can write, we read back: for every type, on messages nobody thought of."""

import pytest
from generating import STRUCTS, messages
from hypothesis import HealthCheck, given, settings
from msgspec import Struct

from dragoman import codec


@pytest.mark.parametrize("name", sorted(STRUCTS))
def test_what_is_written_reads_back_the_same(name: str) -> None:
    tp = STRUCTS[name]

    @settings(max_examples=20, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(messages(tp))
    def holds(message: Struct) -> None:
        written = codec.encode(message)
        assert b"\n" not in written
        again = codec.decode(written, tp)
        assert type(again) is tp
        assert codec.encode(again) == written

    holds()

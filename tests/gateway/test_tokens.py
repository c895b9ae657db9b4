"""Who is let in by a token file, and how guessing is made slow."""

import stat
import time
from pathlib import Path

import pytest

from dragoman.gateway.access.throttle import Throttle
from dragoman.gateway.access.tokens import TokenFile, TokenFileError, add_token, revoke_token
from dragoman.gateway.metrics import Metrics


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "tokens.json"


def test_a_token_opens_what_it_was_made_for(file: Path) -> None:
    token = add_token(file, "laptop", "ann", ["use", "admin"])
    grant = TokenFile(file).grant(token)
    assert grant is not None
    assert (grant.name, grant.principal, list(grant.scopes)) == ("laptop", "ann", ["use", "admin"])


@pytest.mark.parametrize("guess", ["", "dgm_", "x" * 1000, "\udcff", "Bearer"])
def test_any_other_token_opens_nothing(file: Path, guess: str) -> None:
    add_token(file, "laptop", "ann")
    assert TokenFile(file).grant(guess) is None


def test_the_file_holds_no_token_and_is_nobody_elses_to_read(file: Path) -> None:
    token = add_token(file, "laptop", "ann")
    assert token not in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    file.chmod(0o644)
    with pytest.raises(TokenFileError, match="chmod 600"):
        TokenFile(file)


def test_a_revoked_token_is_refused_without_a_restart(file: Path) -> None:
    kept, revoked = add_token(file, "laptop", "ann"), add_token(file, "phone", "ann")
    tokens = TokenFile(file)
    grant = tokens.grant(revoked)
    assert grant is not None
    assert tokens.still_holds(grant)
    revoke_token(file, "phone")
    tokens.refresh()
    assert not tokens.still_holds(grant)
    assert tokens.grant(revoked) is None
    assert tokens.grant(kept) is not None


def test_an_expired_token_is_refused(file: Path) -> None:
    expired = add_token(file, "old", "ann", expires=time.time() - 1)
    assert TokenFile(file).grant(expired) is None


def test_what_is_no_token_file_is_refused_in_words(file: Path) -> None:
    with pytest.raises(TokenFileError, match="there is no token file"):
        TokenFile(file)
    file.write_text("{")
    file.chmod(0o600)
    with pytest.raises(TokenFileError, match="is not a token file"):
        TokenFile(file)


def test_two_tokens_of_one_name_are_refused(file: Path) -> None:
    add_token(file, "laptop", "ann")
    with pytest.raises(TokenFileError, match="revoke it first"):
        add_token(file, "laptop", "bob")
    with pytest.raises(TokenFileError, match="no token named"):
        revoke_token(file, "desktop")


def test_whoever_fails_too_often_waits_and_nobody_else_does() -> None:
    now = [0.0]
    damping = Throttle(3, 60, clock=lambda: now[0])
    for _ in range(3):
        assert damping.wait("one") == 0
        damping.failed("one")
    assert damping.wait("one") == 60
    assert damping.wait("two") == 0
    now[0] = 61
    assert damping.wait("one") == 0


def test_failures_long_past_do_not_count() -> None:
    now = [0.0]
    damping = Throttle(2, 60, clock=lambda: now[0])
    damping.failed("one")
    now[0] = 100
    damping.failed("one")
    assert damping.wait("one") == 0


def test_ever_new_sources_do_not_fill_the_memory() -> None:
    damping = Throttle(3, 60, sources=100)
    for number in range(1000):
        damping.failed(str(number))
    assert len(damping._sources) == 100


def test_metrics_are_told_as_prometheus_reads_them() -> None:
    metrics = Metrics()
    metrics.connections.set(3)
    metrics.turns.add(value="end_turn")
    metrics.turn_seconds.observe(0.2)
    metrics.turn_seconds.observe(1000)
    lines = metrics.text().splitlines()
    assert "dragoman_connections 3" in lines
    assert 'dragoman_turns_total{outcome="end_turn"} 1' in lines
    assert 'dragoman_turn_seconds_bucket{le="0.25"} 1' in lines
    assert 'dragoman_turn_seconds_bucket{le="+Inf"} 2' in lines
    assert "dragoman_turn_seconds_count 2" in lines
    assert "# TYPE dragoman_turns_total counter" in lines

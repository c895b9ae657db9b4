"""Updates of sessions that are not known yet are kept in order, within a bound that no session can use up alone."""

from dragoman.gateway.early_updates import MAX_EARLY, OVERHEAD, EarlyUpdates

HALF = MAX_EARLY // 2 - OVERHEAD


def test_a_session_gets_its_own_updates_in_order_and_once() -> None:
    early: EarlyUpdates[str] = EarlyUpdates()
    for session, update in (("a", "1"), ("b", "2"), ("a", "3")):
        early.keep(session, update, 1)
    assert early.take("a") == ["1", "3"]
    assert early.take("a") == []
    assert early.take("b") == ["2"]


def test_the_oldest_session_makes_room_for_the_others() -> None:
    early: EarlyUpdates[str] = EarlyUpdates()
    early.keep("never opened", "1", HALF)
    early.keep("a", "2", HALF)
    early.keep("b", "3", HALF)
    assert early.take("never opened") == []
    assert early.take("a") == ["2"]
    assert early.take("b") == ["3"]


def test_updates_that_a_session_has_no_room_for_are_dropped_and_logged(caplog) -> None:
    early: EarlyUpdates[str] = EarlyUpdates()
    early.keep("a", "1", HALF)
    early.keep("a", "2", HALF)
    early.keep("a", "3", 1)
    assert early.take("a") == ["1", "2"]
    assert caplog.messages == ["the session a is not open, and more was told of it than is kept"]


def test_room_that_was_taken_up_is_there_again_once_it_is_given() -> None:
    early: EarlyUpdates[str] = EarlyUpdates()
    for session in "ab":
        early.keep(session, session, 2 * HALF)
        assert early.take(session) == [session]
        early.keep(session, session, 2 * HALF)
        early.clear()

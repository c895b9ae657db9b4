"""What an hour of chaos is judged by notices what it is for."""

from pathlib import Path

from .chaos import SETTLE, Chaos, Trouble, Worked, misheard, words_of

WELL, FAILED = "end_turn", "InternalError turn_interrupted"


def test_a_word_that_is_lost_doubled_or_out_of_order_is_misheard() -> None:
    first, second = words_of(0), words_of(1)
    assert misheard(first + second, [WELL, WELL]) == ""
    assert misheard(first[:3] + second, [FAILED, WELL]) == ""
    assert misheard([], [FAILED]) == ""
    for heard in (first[:3] + second, first[:1] + first + second, second + first, first + second[:-1], first):
        assert misheard(heard, [WELL, WELL]), heard
    assert misheard([*first, *first], [WELL])
    assert misheard([first[1]], [FAILED])


def test_what_is_slow_or_fails_is_noticed_unless_the_machine_was_in_trouble(tmp_path: Path) -> None:
    chaos = Chaos(tmp_path, 1)
    chaos.troubles = [Trouble("kill", 100.0, 104.0)]
    after = 104.0 + SETTLE + 1
    well = [
        Worked("ann", 0.0, 9.0, WELL),
        Worked("ann", 99.0, 110.0, FAILED),
        Worked("ann", after, after + 9, WELL),
    ]
    for prompt in well:
        chaos.worked = [prompt]
        assert chaos.noticed(10.0) == [], prompt
    longest = 10.0 + 4.0 + SETTLE
    for prompt in (
        Worked("ann", 0.0, 11.0, WELL),
        Worked("ann", 0.0, 1.0, FAILED),
        Worked("ann", after, after + 1, FAILED),
        Worked("ann", 101.0, 102.0 + longest, WELL),
        Worked("ann", 101.0, 102.0, "none"),
    ):
        chaos.worked = [prompt]
        (noticed,) = chaos.noticed(10.0)
        assert noticed.startswith("ann: ")

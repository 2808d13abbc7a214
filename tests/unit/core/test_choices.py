"""Where decisions come from: integers in a range, and what is made of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from staleloc.sim.core.choices import Choices, HypothesisChoices, seeded


class Scripted:
    """A source that gives answers out of a list and remembers what it was asked."""

    def __init__(self, answers: Iterable[int], simplifies: bool = False) -> None:
        self.answers = iter(answers)
        self.simplifies = simplifies
        self.asked: list[tuple[int, int]] = []

    def integer(self, low: int, high: int) -> int:
        self.asked.append((low, high))
        return next(self.answers)


def test_a_seeded_source_gives_the_same_answers_every_time() -> None:
    """Seed and tape number say all; another seed or another tape gives others."""
    answers = {key: [seeded(*key).integer(0, 1 << 30) for _ in range(5)] for key in ((0, 0), (0, 1), (1, 0), (0, 11))}
    assert answers[(0, 0)] == [seeded(0, 0).integer(0, 1 << 30) for _ in range(5)]
    assert len({tuple(numbers) for numbers in answers.values()}) == len(answers)


def test_seed_and_number_are_not_mixed_up() -> None:
    """Tape 11 of seed 1 is not tape 1 of seed 11."""
    assert seeded(1, 11).integer(0, 1 << 30) != seeded(11, 1).integer(0, 1 << 30)


def test_the_answers_of_a_seeded_source_are_pinned() -> None:
    """A seed in a report means the same tape on every machine and with every release."""
    choices = seeded(0, 0)
    assert [choices.integer(0, 999) for _ in range(6)] == [342, 692, 830, 396, 568, 800]


@pytest.mark.parametrize(("low", "high"), [(0, 0), (0, 1), (3, 7), (-2, 2)])
def test_a_seeded_source_covers_its_range_and_stays_in_it(low: int, high: int) -> None:
    """Both ends are included, and no answer is much rarer than another."""
    choices = seeded(3, 4)
    seen = Counter(choices.integer(low, high) for _ in range(400))
    assert set(seen) == set(range(low, high + 1))
    assert min(seen.values()) > 200 / len(seen)


def test_pick_asks_for_an_index() -> None:
    """The smallest answer is the first option."""
    source = Scripted([0, 2])
    choices = Choices(source)
    assert [choices.pick("abc"), choices.pick("abc")] == ["a", "c"]
    assert source.asked == [(0, 2), (0, 2)]


@pytest.mark.parametrize(
    ("percent", "answer", "expected"),
    [
        (0, 99, False),
        (100, 0, True),
        (30, 69, False),
        (30, 70, True),
        (30, 0, False),
    ],
)
def test_chance_is_false_for_small_answers(percent: int, answer: int, expected: bool) -> None:
    """False is the simpler outcome, unless it is impossible."""
    assert Choices(Scripted([answer])).chance(percent) is expected


def test_weighted_gives_each_index_its_share() -> None:
    """Every answer belongs to one index, and an index of weight 0 to none."""
    counts = Counter(Choices(Scripted([answer])).weighted([3, 0, 2]) for answer in range(5))
    assert counts == {0: 3, 2: 2}


def test_a_source_that_does_not_simplify_is_never_asked_whether_to_go_on() -> None:
    """Seeded tapes are as long as their habits say."""
    source = Scripted([])
    assert all(Choices(source).more() for _ in range(100))
    assert source.asked == []


def test_a_source_that_simplifies_may_end_a_tape() -> None:
    """The smallest answer means no more; it is one of so many that tapes get long all the same."""
    source = Scripted([1, 4095, 0], simplifies=True)
    choices = Choices(source)
    assert [choices.more(), choices.more(), choices.more()] == [True, True, False]
    assert source.asked == [(0, 4095)] * 3


@settings(max_examples=20, deadline=None, derandomize=True, database=None)
@given(st.data(), st.integers(-3, 3), st.integers(0, 9))
def test_hypothesis_answers_within_the_range(data: st.DataObject, low: int, span: int) -> None:
    """Both ends are included."""
    assert low <= Choices(HypothesisChoices(data)).integer(low, low + span) <= low + span

"""Results of a batch: who is among them, what is asked of the target, and what is counted."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from staleloc.models.config import Config
from staleloc.sim.core.event import Event
from staleloc.sim.core.tape import Tape, Verdict
from staleloc.sim.parts.drive import drive_engine
from staleloc.sim.parts.engine.events import (
    Abort,
    Admit,
    Arrive,
    Checkpoint,
    Decode,
    Evict,
    EvictWindow,
    Finish,
    Prefill,
    Results,
)
from staleloc.sim.tapes.reshape import renumbered
from staleloc.sim.targets.builtin import BuiltinEngine

CONFIG = Config(level="engine", policy="memo", full_size=16, swa_size=16, window=2)
SHORT = (1, 1, 1)


class Recorder(BuiltinEngine):
    """Notes what it is asked for around a batch's results.

    Args:
        grouped: whether it opens a free group.
    """

    def __init__(self, grouped: bool = True) -> None:
        super().__init__()
        self.asked: list[str] = []
        self.grouped = grouped
        self.inside = False

    def begin_results(self, kind: str) -> bool:
        self.asked.append(f"begin {kind}")
        self.inside = True
        return self.grouped and super().begin_results(kind)

    def end_results(self) -> None:
        self.asked.append("end")
        super().end_results()

    def finish(self, request: int) -> None:
        self.asked.append(f"finish {request}")
        super().finish(request)

    def abort_result(self, request: int) -> None:
        self.asked.append(f"abort {request}")
        super().abort_result(request)

    def checkpoint(self, request: int) -> None:
        if self.inside and self.asked[-1] != f"finish {request}":
            self.asked.append(f"checkpoint {request}")
        super().checkpoint(request)


def computed(request: int, *tokens: int) -> tuple[Event, ...]:
    return Arrive(request, tokens), Admit(request), Prefill(request, len(tokens))


def running(request: int, *tokens: int) -> tuple[Event, ...]:
    return *computed(request, *tokens), Checkpoint(request)


def play(target: BuiltinEngine, *events: Event) -> Verdict:
    verdict = drive_engine(Tape(CONFIG, events), target)
    assert verdict.divergence is None
    return verdict


def asked(*events: Event) -> list[str]:
    target = Recorder()
    play(target, *events)
    return target.asked


def seen(*events: Event, grouped: bool = True) -> Counter[str]:
    return play(Recorder(grouped), *events).seen


def test_each_request_is_treated_in_the_order_of_the_batch() -> None:
    """Between the begin and the end of one group."""
    tape = (*running(0, *SHORT), *running(1, 2, 2), *running(2, 3, 3), Results((2, 0, 1), (1, 2), (0,)))
    assert asked(*tape) == ["begin decode", "finish 2", "abort 0", "finish 1", "end"]


def test_a_prompt_just_computed_is_checkpointed_or_finishes() -> None:
    """With its first token it may finish before any checkpoint."""
    tape = (*computed(0, *SHORT), *computed(1, 2, 2), Results((0, 1), (1,), ()))
    assert asked(*tape) == ["begin prefill", "checkpoint 0", "finish 1", "end"]
    assert asked(*tape, Decode((0, 1), 1), Results((0,), (0,), ())) == [
        *("begin prefill", "checkpoint 0", "finish 1", "end"),
        *("begin decode", "finish 0", "end"),
    ]


def test_a_decode_step_may_be_mixed_with_a_prefill() -> None:
    tape = (*running(0, *SHORT), *computed(1, 2, 2), Results((0, 1), (0,), ()))
    assert asked(*tape) == ["begin prefill", "finish 0", "checkpoint 1", "end"]


@pytest.mark.parametrize(
    "before",
    [
        (),
        (Arrive(0, SHORT),),
        (Arrive(0, SHORT), Admit(0)),
        (Arrive(0, SHORT), Admit(0), Prefill(0, 1)),
        (Arrive(0, SHORT), Admit(0), Prefill(0, 1), Checkpoint(0)),
    ],
    ids=["unknown", "waiting", "admitted", "chunk", "checkpointed chunk"],
)
def test_a_request_without_a_result_is_not_among_them(before: tuple[Event, ...]) -> None:
    """A chunk in the middle of a prompt is checkpointed later, outside any group."""
    assert asked(*before, Results((0,), (0,), ())) == []


def test_nothing_is_asked_if_all_go_on() -> None:
    """The group would be empty."""
    assert asked(*running(0, *SHORT), Results((0,), (), ())) == []


def test_the_event_says_how_it_took_effect() -> None:
    """Without the requests that had no result, and each once."""
    tape = (*running(0, *SHORT), Arrive(1, SHORT), Results((0, 0, 1, 7), (0, 1), (0, 7)))
    effect = play(Recorder(), *tape).effect
    assert effect is not None
    assert effect[-1] == Results((0,), (0,), ())


def test_situations_are_those_inside_a_group() -> None:
    """A target that opens none has none."""
    tape = (*running(0, *SHORT), *running(1, 2, 2), *running(2, 3, 3), *running(3, 4, 4))
    tape = (*tape, Results((0, 1, 2, 3), (0, 1), (2,)))
    names = ("results_in_group", "aborted_in_group", "went_on_in_group")
    assert [seen(*tape)[name] for name in names] == [1, 1, 1]
    assert [seen(*tape, grouped=False)[name] for name in names] == [0, 0, 0]
    assert seen(*running(0, *SHORT), Results((0,), (0,), ()))["results_in_group"] == 0


def test_a_recovery_inside_a_group_is_counted() -> None:
    """And one outside is not."""
    inner = (*running(0, 1, 1, 1, 1), Decode((0,), 1), Decode((0,), 1), EvictWindow(0), Finish(0))
    tombstoned = (*inner, *running(1, 1, 1, 1, 1, 2), Finish(1), Evict(0, 5), *running(2, 3, 3), Abort(2))
    again = computed(2, 1, 1, 1, 1, 2)
    assert seen(*tombstoned, *again, Results((2,), (2,), ()))["recovered_in_group"] > 0
    assert seen(*tombstoned, *again, Checkpoint(2), Finish(2))["recovered_in_group"] == 0


def test_requests_are_renumbered_in_all_fields() -> None:
    events = renumbered((Arrive(5, SHORT), Arrive(3, SHORT), Results((5, 3), (3,), (5,))))
    assert events[-1] == Results((0, 1), (1,), (0,))


def test_simpler_results_are_fewer_and_then_alone() -> None:
    """The result of one request is also tried outside any group."""
    several = list(Results((0, 1), (0,), (1,)).simpler())
    assert several == [
        *(Results((1,), (), (1,)), Results((0,), (0,), ())),
        *(Results((0, 1), (), (1,)), Results((0, 1), (0,), ())),
        Results((0, 1), (0, 1), ()),
    ]
    assert next(Results((0,), (0,), ()).simpler()) == Finish(0)
    assert next(Results((0,), (), (0,)).simpler()) == Abort(0)
    assert next(Results((0,), (), ()).simpler()) == Checkpoint(0)


def test_slots_are_free_after_the_group_only() -> None:
    """The builtin engine holds them back, in both pools, and unmaps them at once."""
    engine = BuiltinEngine()
    engine.build(replace(CONFIG, full_size=4, swa_size=4))
    engine.admit(0, list(SHORT))
    locs = engine.prefill(0, 3)
    assert locs is not None
    assert engine.begin_results("decode")
    engine.abort_result(0)
    assert (len(engine.raw_free().full), len(engine.raw_free().swa)) == (1, 1)
    assert [engine.raw_mapping()[loc] for loc in locs] == [0, 0, 0]
    engine.end_results()
    assert (len(engine.raw_free().full), len(engine.raw_free().swa)) == (4, 4)

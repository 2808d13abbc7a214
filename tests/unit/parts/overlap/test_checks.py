"""Every oracle of two batches in flight, fired by a scheduler that misbehaves in one way, and quiet without it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from staleloc.models.config import Config
from staleloc.sim.core.event import Event
from staleloc.sim.core.tape import Tape
from staleloc.sim.parts.drive import drive_engine
from staleloc.sim.parts.engine.events import Abort, Evict, EvictWindow, Finish, Results
from staleloc.sim.parts.overlap.events import Launch, Process
from staleloc.sim.parts.scheduler.events import DecodeRound, PrefillRound, Submit
from staleloc.sim.targets.builtin import BuiltinEngine
from staleloc.sim.targets.overlap import FlightView, Launched
from staleloc.sim.targets.scheduler import DecodeRound as Decoded

CONFIG = Config(
    level="engine", features=("scheduler", "overlap"), policy="memo", page_size=4, full_size=64, swa_size=20, window=5,
    chunk=8, max_prefill=64, new_token_ratio=70,
)  # fmt: skip

TURN = (Launch(1), Process())
SUBMITTED = (Submit(0, (1,) * 6, 3), Launch(1))
RUNNING = (*SUBMITTED, *TURN)


class EndsNobody(BuiltinEngine):
    def process(self) -> tuple[int, ...]:
        super().process()
        return ()


class EndsEverybody(BuiltinEngine):
    def process(self) -> tuple[int, ...]:
        batch = self._flights[0].batch
        super().process()
        return tuple(batch.numbers)


class Tells(BuiltinEngine):
    """The batches in flight are told differently from what they are."""

    def raw_flights(self) -> list[FlightView]:
        return [self.lie(view) for view in super().raw_flights()]

    def lie(self, view: FlightView) -> FlightView:
        raise NotImplementedError


class HoldsAnother(Tells):
    def lie(self, view: FlightView) -> FlightView:
        return replace(view, requests=(7,))


class HoldsOtherLocs(Tells):
    def lie(self, view: FlightView) -> FlightView:
        return replace(view, locs=(0,) * len(view.locs))


class HoldsOtherLengths(Tells):
    def lie(self, view: FlightView) -> FlightView:
        return replace(view, lens=tuple(length + 1 for length in view.lens))


class ForgetsABatch(BuiltinEngine):
    def raw_flights(self) -> list[FlightView]:
        return super().raw_flights()[1:]


class GivesUp(BuiltinEngine):
    def launch(self) -> Launched:
        launched = super().launch()
        if launched.decode is None:
            return launched
        self._release(0)
        return Launched(decode=Decoded(failed=(0,)))


class LeavesOut(BuiltinEngine):
    def launch(self) -> Launched:
        launched = super().launch()
        return launched if launched.decode is None else Launched(decode=Decoded(), finishing=(0,))


@dataclass
class Case:
    """A scheduler that misbehaves, the divergence that it must show, and the tape."""

    target: type[BuiltinEngine]
    kind: str
    what: str
    events: tuple[Event, ...]


ONE = (Submit(0, (1,) * 6, 1), Launch(1))

CASES: dict[str, list[Case]] = {
    "results": [
        Case(EndsNobody, "leak", "requests [] ended with their results, expected [0]", (*ONE, *TURN)),
        Case(EndsEverybody, "leak", "requests [0] ended with their results, expected []", RUNNING),
    ],
    "held": [
        Case(HoldsAnother, "leak", "a batch in flight has requests [7], expected [0]", SUBMITTED),
        Case(HoldsOtherLocs, "use-after-free", "writes to full locs [0 0 0 0 0 0], expected", SUBMITTED),
        Case(HoldsOtherLengths, "wrong-content", "requests of [7] tokens, expected [6]", SUBMITTED),
        Case(ForgetsABatch, "leak", "0 batches are in flight, expected 1", SUBMITTED),
    ],
    "last-token": [Case(GivesUp, "over-admission", "while its last token was in flight", (*ONE, Launch(1)))],
    "rounds": [
        Case(LeavesOut, "starvation", "request 0 does not decode, and its last result", (*SUBMITTED, Launch(1)))
    ],
}
"""Check -> the schedulers that fire it."""

PARAMETERS = [
    pytest.param(check, case, id=f"{check}:{case.target.__name__}") for check, cases in CASES.items() for case in cases
]


@pytest.mark.parametrize(("check", "case"), PARAMETERS)
def test_a_misbehaving_scheduler_fires_its_check(check: str, case: Case) -> None:
    """It is named by the check that is about it, as the class that it is, in words that say what is wrong."""
    found = drive_engine(Tape(CONFIG, case.events), case.target()).divergence
    assert found is not None
    assert (found.check, found.kind) == (check, case.kind)
    assert case.what in found.what


@pytest.mark.parametrize(("check", "case"), PARAMETERS)
def test_the_same_tape_is_quiet_without_it(check: str, case: Case) -> None:
    """So it is the misbehaviour that fired."""
    assert drive_engine(Tape(CONFIG, case.events), BuiltinEngine()).divergence is None


@pytest.mark.parametrize(
    "skipped",
    [Process(), PrefillRound(), DecodeRound(1), Finish(0), Evict(1, 1), EvictWindow(0), Results((0,), (0,), ())],
    ids=lambda event: event.kind,
)
def test_what_the_loop_never_does_is_skipped(skipped: Event) -> None:
    """Results before a second launch, rounds of one batch at a time, and an end that no result brings."""
    verdict = drive_engine(Tape(CONFIG, (*SUBMITTED, skipped)), BuiltinEngine())
    assert (verdict.divergence, verdict.skipped) == (None, 1)


@pytest.mark.parametrize("skipped", [Launch(1), Submit(1, (1, 1), 1), Abort(0)], ids=lambda event: event.kind)
def test_the_second_half_of_a_turn_comes_next(skipped: Event) -> None:
    """Between the launch of a batch and the results of the one before nothing is launched, and nothing arrives."""
    verdict = drive_engine(Tape(CONFIG, (*SUBMITTED, Launch(1), skipped)), BuiltinEngine())
    assert (verdict.divergence, verdict.skipped) == (None, 1)

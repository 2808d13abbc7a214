"""Every oracle of scheduling, fired by a scheduler that misbehaves in one way, and quiet without it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from staleloc.models.config import Config
from staleloc.sim.core.event import Event
from staleloc.sim.core.tape import Tape
from staleloc.sim.parts.drive import drive_engine
from staleloc.sim.parts.engine.events import Abort
from staleloc.sim.parts.scheduler.events import DecodeRound, PrefillRound, Submit
from staleloc.sim.targets.builtin import BuiltinEngine
from staleloc.sim.targets.scheduler import DecodeRound as Decoded
from staleloc.sim.targets.scheduler import Grant
from staleloc.sim.targets.scheduler import PrefillRound as Prefilled

CONFIG = Config(
    level="engine", features=("scheduler",), policy="memo", page_size=4, full_size=64, swa_size=20, window=5, chunk=8,
    max_prefill=64, new_token_ratio=70,
)  # fmt: skip

SUBMITTED = (Submit(0, (1,) * 12, 4), PrefillRound())
CHUNKED = (*SUBMITTED, PrefillRound())
RUNNING = (*CHUNKED, DecodeRound(1))
UNCACHED = (("prefix_cache", False),)
WHOLE = (("chunk", 0),)


class Tells(BuiltinEngine):
    """A prefill batch is told differently from what was done."""

    def prefill_round(self) -> Prefilled:
        return Prefilled(tuple(map(self.lie, super().prefill_round().grants)))

    def lie(self, grant: Grant) -> Grant:
        raise NotImplementedError


class TellsAnotherRequest(Tells):
    def lie(self, grant: Grant) -> Grant:
        return replace(grant, request=7)


class TellsPartOfAPage(Tells):
    def lie(self, grant: Grant) -> Grant:
        return replace(grant, cached=grant.cached + 1)


class TellsTooMuch(Tells):
    def lie(self, grant: Grant) -> Grant:
        return replace(grant, count=99)


class TellsAHost(Tells):
    def lie(self, grant: Grant) -> Grant:
        return replace(grant, loaded=4)


class TakesTwoChunks(BuiltinEngine):
    def _grant(self, number: int, chunk: int) -> Grant | None:
        return super()._grant(number, 2 * chunk)


class CutsWithoutChunks(BuiltinEngine):
    def _grant(self, number: int, chunk: int) -> Grant | None:
        return super()._grant(number, 4)


class LeavesOneOut(BuiltinEngine):
    def decode_round(self, token: int) -> Decoded:
        super().decode_round(token)
        return Decoded()


class KeepsSlots(BuiltinEngine):
    def abort(self, request: int) -> None:
        self._queues.chunked = None


class GivesUp(BuiltinEngine):
    def decode_round(self, token: int) -> Decoded:
        (number,) = self._queues.running
        self.finish(number)
        return Decoded(failed=(number,))


class AdmitsNobody(BuiltinEngine):
    def prefill_round(self) -> Prefilled:
        return Prefilled()


class AdmitsOnce(BuiltinEngine):
    def prefill_round(self) -> Prefilled:
        return Prefilled() if self._queues.chunked is not None else super().prefill_round()


@dataclass
class Case:
    """A scheduler that misbehaves, the divergence that it must show, and the tape."""

    target: type[BuiltinEngine]
    kind: str
    what: str
    events: tuple[Event, ...]
    config: tuple[tuple[str, object], ...] = ()


CASES: dict[str, list[Case]] = {
    "rounds": [
        Case(TellsAnotherRequest, "over-admission", "request 7 is in the batch and does not wait", SUBMITTED),
        Case(TellsPartOfAPage, "misaligned", "was given 1 from the cache; it is whole pages of 4", SUBMITTED),
        Case(TellsTooMuch, "out-of-bounds", "and computes 99", SUBMITTED),
        Case(TakesTwoChunks, "over-admission", "the batch computes 12 tokens, and a chunk has 8 at most", SUBMITTED),
        Case(CutsWithoutChunks, "over-admission", "request 0 is computed in part", SUBMITTED, WHOLE),
        Case(TellsAHost, "out-of-bounds", "and 4 from the host alone", SUBMITTED),
        Case(LeavesOneOut, "leak", "requests [] came out of a decode round of [0]", RUNNING),
    ],
    "holders": [Case(KeepsSlots, "leak", "requests [0] hold slots, expected []", (*SUBMITTED, Abort(0)))],
    "over-admission": [Case(GivesUp, "over-admission", "request 0 ran alone and was given up", RUNNING)],
    "starvation": [Case(AdmitsNobody, "starvation", "request 0 waits with 12 tokens", SUBMITTED)],
    "starvation-between-chunks": [Case(AdmitsOnce, "starvation", "request 0 waits after 8 of 12 tokens", CHUNKED)],
    "starvation-without-cache": [Case(AdmitsOnce, "starvation", "request 0 waits after 8 of 12", CHUNKED, UNCACHED)],
    "starvation-without-chunks": [Case(AdmitsNobody, "starvation", "request 0 waits with 12", SUBMITTED, WHOLE)],
}
"""Check -> the schedulers that fire it."""

PARAMETERS = [
    pytest.param(check, case, id=f"{check}:{case.target.__name__}") for check, cases in CASES.items() for case in cases
]


@pytest.mark.parametrize(("check", "case"), PARAMETERS)
def test_a_misbehaving_scheduler_fires_its_check(check: str, case: Case) -> None:
    """It is named by the check that is about it, as the class that it is, in words that say what is wrong."""
    tape = Tape(replace(CONFIG, **dict(case.config)), case.events)  # type: ignore[arg-type]
    found = drive_engine(tape, case.target()).divergence
    assert found is not None
    assert (found.check, found.kind) == (check, case.kind)
    assert case.what in found.what


@pytest.mark.parametrize(("check", "case"), PARAMETERS)
def test_the_same_tape_is_quiet_without_it(check: str, case: Case) -> None:
    """So it is the misbehaviour that fired."""
    tape = Tape(replace(CONFIG, **dict(case.config)), case.events)  # type: ignore[arg-type]
    assert drive_engine(tape, BuiltinEngine()).divergence is None


def test_a_busy_engine_may_refuse() -> None:
    """Starvation is judged on an idle engine only: what runs may give slots up."""

    class Refuses(BuiltinEngine):
        def prefill_round(self) -> Prefilled:
            return Prefilled() if self._queues.running else super().prefill_round()

    tape = Tape(CONFIG, (*RUNNING, Submit(1, (2,) * 8, 1), PrefillRound(), DecodeRound(1)))
    verdict = drive_engine(tape, Refuses())
    assert verdict.divergence is None
    assert verdict.seen["admission_refused"] == 1


def test_one_idle_round_may_come_to_nothing() -> None:
    """A round may change what the next one finds, so several in a row must come to nothing."""

    class Hesitates(BuiltinEngine):
        tries = 0

        def prefill_round(self) -> Prefilled:
            self.tries += 1
            return super().prefill_round() if self.tries % 3 == 0 else Prefilled()

    assert drive_engine(Tape(CONFIG, CHUNKED), Hesitates()).divergence is None

"""Every oracle of disaggregated decode, fired by a decode node that misbehaves in one way, and quiet without it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest

from staleloc.models.config import Config
from staleloc.sim.core.event import Event
from staleloc.sim.core.tape import Tape
from staleloc.sim.parts.decode_node.events import Enqueue, Preallocate, Resume, Retract, Start, Transfer
from staleloc.sim.parts.decode_node.part import DECODE_NODE
from staleloc.sim.parts.drive import drive_engine
from staleloc.sim.parts.engine.events import Abort, Decode, EvictWindow, Finish
from staleloc.sim.targets.builtin import BuiltinEngine
from staleloc.sim.targets.builtin.decode_jobs import Job
from staleloc.sim.targets.builtin.tree_nodes import Node
from staleloc.sim.targets.disagg import OverAdmission, Preallocated, Preallocation, Queues, Rules
from staleloc.sim.targets.engine import RequestView

CONFIG = Config(level="engine", features=("disagg",), policy="memo", page_size=4, full_size=32, swa_size=16, window=4)
PLACED = (Enqueue(0, (1,) * 10, 8), Preallocate())
RUNNING = (*PLACED, Transfer(0, 96, 1), Start(), Decode((0,), 1))
RETRACTED = (*RUNNING, Retract(0))
RESUMED = (*RETRACTED, Resume())
CROWDED = (*PLACED, Enqueue(1, (1,) * 16, 1), Preallocate())
GROWN = (
    Enqueue(0, (1,) * 10, 8), Enqueue(1, (1,) * 4, 4), Preallocate(), Transfer(0, 96, 1), Transfer(1, 96, 1), Start(),
    Decode((0,), 1), Retract(0), Decode((1,), 1), Resume(),
)  # fmt: skip

OVERTAKEN = (*PLACED, Enqueue(1, (1,) * 24, 1), Enqueue(2, (1,) * 4, 1), Preallocate())


TREE = (("decode_tree", True), ("window", 8), ("swa_size", 32))
TIGHT = (
    Enqueue(0, (1,) * 8, 2), Enqueue(2, (2,) * 16, 2), Preallocate(), Transfer(0, 96, 1), Transfer(2, 96, 1), Start(),
    Enqueue(1, (1,) * 12, 2), Preallocate(),
)  # fmt: skip
AGAIN = (
    Enqueue(0, (1,) * 12, 2), Preallocate(), Transfer(0, 96, 1), Start(), Finish(0), Enqueue(1, (1,) * 12, 2),
    Preallocate(),
)  # fmt: skip


class LooksForNoPrefix(BuiltinEngine):
    def _prefix(self, job: Job) -> Node:
        return self._tree.root


class MatchesWhole(BuiltinEngine):
    def _prefix(self, job: Job) -> Node:
        return self._tree.match(job.tokens[: self._aligned(job.prompt)]).device_node


class LetsTheLastInFirst(BuiltinEngine):
    def preallocate(self) -> Preallocated:
        self._jobs.queued.reverse()
        done = super().preallocate()
        self._jobs.queued.reverse()
        return done


class NowhereToBeSeen(BuiltinEngine):
    def raw_queues(self) -> Queues:
        return replace(super().raw_queues(), running=())


class LeavesSlots(BuiltinEngine):
    def abort(self, request: int) -> None:
        self._jobs.take(request)


class Told(BuiltinEngine):
    """The sender is told something else."""

    def preallocate(self) -> Preallocated:
        done = super().preallocate()
        return replace(done, admitted=tuple(map(self.lie, done.admitted)))

    def lie(self, told: Preallocation) -> Preallocation:
        raise NotImplementedError


class TellsPartOfAPage(Told):
    def lie(self, told: Preallocation) -> Preallocation:
        return replace(told, cached=1)


class TellsFullPages(Told):
    def lie(self, told: Preallocation) -> Preallocation:
        return replace(told, swa=told.full[-len(told.swa) :])


class TailAPageShort(BuiltinEngine):
    def preallocate(self) -> Preallocated:
        done = super().preallocate()
        for item in done.admitted:
            running = self._requests[item.request]
            self._allocator.free_swa(running.locs(running.evicted, running.evicted + 4))
            running.evicted += 4
        return done


class ForgetsEvicted(BuiltinEngine):
    def raw_requests(self) -> dict[int, RequestView]:
        return {number: replace(view, evicted=0) for number, view in super().raw_requests().items()}


class FillsAHole(BuiltinEngine):
    def resume(self) -> list[int]:
        resumed = super().resume()
        for running in map(self._requests.__getitem__, resumed):
            slots = self.set_mapping(running.locs(0, 4))
            self.receive(1, slots, [7] * 4)
            running.evicted = 0
        return resumed


class KeepsTheMaskUpsideDown(BuiltinEngine):
    def raw_saved(self) -> dict[int, tuple[bool, ...]]:
        return {number: tuple(not bit for bit in mask) for number, mask in super().raw_saved().items()}


class RestoresBackwards(BuiltinEngine):
    def resume(self) -> list[int]:
        for job in self._jobs.retracted:
            assert job.copy is not None
            chunks = [tuple(part.flip(1) for part in parts) for parts in job.copy.swa]
            job.copy = replace(job.copy, swa=chunks)
        return super().resume()


class LosesTheWindow(BuiltinEngine):
    def resume(self) -> list[int]:
        resumed = super().resume()
        for number in resumed:
            self._allocator.free_swa(self._requests[number].locs(8, 11))
        return resumed


class CopiesNoWindow(BuiltinEngine):
    def retract(self, request: int) -> None:
        running = self._requests[request]
        self._allocator.free_swa(running.locs(4, 8))
        super().retract(request)


class AcceptsAll(BuiltinEngine):
    def build(self, config: Config) -> None:
        super().build(config)
        self._accounts.rejects = lambda job: False  # type: ignore[method-assign]


class AcceptsNone(BuiltinEngine):
    def enqueue(self, request: int, tokens: list[int], most: int) -> bool:
        return False


class AdmitsAll(BuiltinEngine):
    def build(self, config: Config) -> None:
        super().build(config)
        self._accounts.fits = lambda job, cached: True  # type: ignore[method-assign]


class AdmitsNone(BuiltinEngine):
    def preallocate(self) -> Preallocated:
        return Preallocated(())


class GivesUp(BuiltinEngine):
    def preallocate(self) -> Preallocated:
        return Preallocated((), failed=tuple(self._jobs.queued.pop(0).number for _ in list(self._jobs.queued)))


class FindsOutItself(BuiltinEngine):
    def preallocate(self) -> Preallocated:
        raise OverAdmission("the cache is full")


class ResumesAll(BuiltinEngine):
    def resume(self) -> list[int]:
        budgets = self._accounts.budgets
        self._accounts.budgets = lambda resuming: (999, 999)  # type: ignore[method-assign]
        resumed = super().resume()
        self._accounts.budgets = budgets  # type: ignore[method-assign]
        return resumed


class ResumesNone(BuiltinEngine):
    def resume(self) -> list[int]:
        return []


class Counts(BuiltinEngine):
    """One more than it should, in what `counts` names."""

    counts = ""

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name != type(self).counts:
            return found

        def off_by_one(*arguments: Any) -> Any:
            value = found(*arguments)
            return (value[0], value[1] + 1) if isinstance(value, tuple) else not value if value is True else value + 1

        return off_by_one


class JoinsAtOnce(BuiltinEngine):
    """What is started runs at once, as in a release."""

    def rules(self) -> Rules:
        return replace(super().rules(), joins_at_once=True)

    def start(self) -> None:
        super().start()
        self._jobs.running += self._jobs.prebuilt
        self._jobs.prebuilt.clear()

    def raw_budgets_beside(self, requests: list[int]) -> tuple[int, int]:
        running = self._jobs.running
        self._jobs.running = [job for job in running if job.number not in requests]
        self._jobs.prebuilt = self.beside([job for job in running if job.number in requests])
        budgets = self.raw_budgets(resuming=False)
        self._jobs.running, self._jobs.prebuilt = running, []
        return budgets

    def beside(self, started: list[Job]) -> list[Job]:
        return started


class ForgetsWhatJoins(JoinsAtOnce):
    def beside(self, started: list[Job]) -> list[Job]:
        return []


def counting(name: str) -> type[BuiltinEngine]:
    return type(f"Counts_{name}", (Counts,), {"counts": name})


@dataclass(frozen=True)
class Case:
    """What a misbehaving target is seen as.

    Attributes:
        target: the target.
        kind: the class of the divergence.
        what: part of its text.
        events: the tape; it shows at the last event.
        changes: of the config.
    """

    target: type[BuiltinEngine]
    kind: str
    what: str
    events: tuple[Event, ...]
    changes: tuple[tuple[str, object], ...] = ()


RESERVING = (("reserved_decode", 8),)

CASES: dict[str, list[Case]] = {
    "queues": [
        Case(NowhereToBeSeen, "leak", "running: requests [], expected [0]", RUNNING),
        Case(LeavesSlots, "leak", "requests [0] hold slots, expected []", (*PLACED, Abort(0))),
    ],
    "transfer": [
        Case(TellsPartOfAPage, "misaligned", "has 1 cached", PLACED),
        Case(TailAPageShort, "out-of-bounds", "has no SWA slots for tokens that are sent", PLACED),
        Case(TellsFullPages, "wrong-mapping", "is told as SWA pages [2, 3], and its row names [1, 2]", PLACED),
        Case(MatchesWhole, "out-of-bounds", "of 12 tokens has 12 cached, and nothing is left", AGAIN, TREE),
    ],
    "evicted": [
        Case(ForgetsEvicted, "wrong-mapping", "says that 0 tokens have no SWA slot, and neither has token 0", PLACED),
    ],
    "masks": [
        Case(FillsAHole, "mask-asymmetry", "0 of request 0 had no SWA slot when it was copied, and layer 1", RESUMED),
        Case(CopiesNoWindow, "mask-asymmetry", "token 4 of request 0 was held and is mapped", RESUMED),
        Case(RestoresBackwards, "mask-asymmetry", "was held and is mapped", RESUMED),
        Case(LosesTheWindow, "mask-asymmetry", "token 8 of request 0 is in the window, and was held", RESUMED),
    ],
    "over-admission": [
        Case(AcceptsAll, "over-admission", "33 tokens was queued", (Enqueue(0, (1,) * 33, 1),)),
        Case(AdmitsAll, "over-admission", "request 1 was admitted: it asks for 24 full", CROWDED, RESERVING),
        Case(GivesUp, "over-admission", "request 0 was aborted", PLACED),
        Case(FindsOutItself, "over-admission", "the cache is full", PLACED),
        Case(ResumesAll, "over-admission", "request 0 resumed: it asks for 19 full", GROWN, (("reserved_decode", 7),)),
    ],
    "starvation": [
        Case(AcceptsNone, "starvation", "10 tokens was rejected", PLACED[:1]),
        Case(AdmitsNone, "starvation", "request 0 waits", PLACED),
        Case(LooksForNoPrefix, "starvation", "request 1 waits, 8 tokens of it cached: it asks for 6 full", TIGHT, TREE),
        Case(LetsTheLastInFirst, "starvation", "request 2 was let in before request 1", OVERTAKEN),
        Case(ResumesNone, "starvation", "request 0 stays retracted", RESUMED),
    ],
    "lengths": [
        Case(counting("raw_uses_tail"), "starvation", "a pool that takes tail preallocation is 0", PLACED[:1]),
        Case(counting("raw_tail"), "starvation", "the tail of 10 tokens is 7, expected 6", PLACED[:1]),
        Case(counting("raw_lengths"), "starvation", "the SWA length of request 0 is 7, expected 6", PLACED[:1]),
        Case(counting("raw_required"), "starvation", "the SWA need of request 0 is 9, expected 8", PLACED[:1]),
        Case(counting("raw_retractable"), "over-admission", "frees of the SWA pool is 9, expected 8", RUNNING),
        Case(counting("raw_active"), "starvation", "the number of active requests is 1, expected 0", PLACED[:1]),
        Case(counting("raw_budgets"), "over-admission", "the SWA budget of a round of preallocation is 17", PLACED[:1]),
    ],
    "prebuilt": [
        Case(ForgetsWhatJoins, "over-admission", "of 1 the full budget is 20, expected 12", RUNNING[:4], RESERVING),
    ],
}  # fmt: skip
"""Check -> what fires it."""

EACH = [pytest.param(check, case, id=f"{check}: {case.what}") for check, cases in CASES.items() for case in cases]


def tape(case: Case) -> Tape:
    return Tape(replace(CONFIG, **dict(case.changes)), case.events)  # type: ignore[arg-type]


@pytest.mark.parametrize(("check", "case"), EACH)
def test_a_misbehaving_node_fires_its_check(check: str, case: Case) -> None:
    """The class, the check and the fact are those of the misbehaviour, at the event at which it happened."""
    divergence = drive_engine(tape(case), case.target()).divergence
    assert divergence is not None
    assert (divergence.kind, divergence.check) == (case.kind, check), divergence.what
    assert case.what in divergence.what
    assert divergence.event == len(case.events) - 1


@pytest.mark.parametrize(("check", "case"), EACH)
def test_no_check_fires_on_correct_code(check: str, case: Case) -> None:
    """The same tape on the node as it is."""
    assert drive_engine(tape(case), BuiltinEngine()).divergence is None


def test_a_node_whose_batches_join_at_once_is_right() -> None:
    """It is asked what it would leave beside the batch, and counts it."""
    events = (*RUNNING[:4], Enqueue(1, (1,) * 8, 1), Preallocate(), Transfer(1, 96, 1), Start(), Decode((0, 1), 1))
    for reserved in (0, 1, 8):
        assert drive_engine(Tape(replace(CONFIG, reserved_decode=reserved), events), JoinsAtOnce()).divergence is None


def test_every_check_fires_here_or_at_the_engine_level() -> None:
    """A check that nothing fires could be dropped unseen."""
    own = [check.name for check in DECODE_NODE.checks]
    assert sorted(own) == sorted(CASES)


def test_a_budget_says_what_it_is_made_of() -> None:
    """And which of its terms alone would explain the difference."""

    class ForgetsRetracted(BuiltinEngine):
        def raw_budgets(self, resuming: bool) -> tuple[int, int]:
            full, swa = super().raw_budgets(resuming)
            return full, swa if resuming else swa + 8 * len(self._jobs.retracted)

    divergence = drive_engine(Tape(CONFIG, RETRACTED), ForgetsRetracted()).divergence
    assert divergence is not None
    assert divergence.what == "the SWA budget of a round of preallocation is 16, expected 8"
    assert divergence.sentence == (
        "the budget is 16 free - 8 kept for retracted requests; the node has 8 too many, as many as are kept for "
        "retracted requests"
    )


def test_a_count_says_by_which_rules_it_was_made() -> None:
    """They are read off a release's code, and who reads the report must be able to see one that was misread."""
    divergence = drive_engine(Tape(CONFIG, PLACED), AdmitsNone()).divergence
    assert divergence is not None
    said = " ".join(line.strip() for line in divergence.state)
    assert "counted by whole_pages, swa_evictable," in said
    assert "not by reserves_swa," in said


def test_how_a_copy_keeps_its_mask_is_its_own_business() -> None:
    """A mask that is saved and read upside down restores the same rows."""
    assert drive_engine(Tape(CONFIG, RESUMED), KeepsTheMaskUpsideDown()).divergence is None


def test_what_a_hole_holds_is_nobodys() -> None:
    """A token that had no SWA slot when its request was retracted gets one when it resumes; the next copy holds it."""

    class KeepsHoles(BuiltinEngine):
        def _drop_unfilled(self, job: Job) -> None:
            pass

    again = (Start(), Decode((0,), 1), Retract(0), Resume())
    events = (*RUNNING, Decode((0,), 1), EvictWindow(0), Retract(0), Resume(), *again, *again)
    verdict = drive_engine(Tape(replace(CONFIG, page_size=1, swa_size=32), events), KeepsHoles())
    assert verdict.divergence is None
    assert verdict.seen["hole_outside_window"]


def test_a_copy_that_leaves_rows_out_is_told_by_its_mask() -> None:
    """The mask is a hint at the cause, and the report says how to read it."""
    divergence = drive_engine(Tape(CONFIG, RESUMED), CopiesNoWindow()).divergence
    assert divergence is not None
    assert divergence.sentence == (
        "the copy's mask is ........xxx, and ....xxxxxxx was mapped (x: the token has an SWA row)"
    )

"""Every oracle, fired by a target that misbehaves in one way, and quiet on the same tape without it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from staleloc.models.config import Config
from staleloc.sim.core.choices import seeded
from staleloc.sim.core.divergence import CLASSES, Divergence
from staleloc.sim.core.event import Event
from staleloc.sim.core.tape import Tape
from staleloc.sim.parts.allocator.checks import CHECKS, EARLY
from staleloc.sim.parts.allocator.events import (
    Alloc,
    AllocExtend,
    AllocExtendSwaTail,
    BeginForward,
    Clear,
    CpuCopy,
    EndForward,
    Free,
    FreeGroupBegin,
    FreeGroupEnd,
    FreeSwa,
    LoadCpuCopy,
    Move,
    ReadKv,
    RegisterMapping,
    SetMapping,
    Translate,
    WriteKv,
)
from staleloc.sim.parts.allocator.generate import generate
from staleloc.sim.parts.drive import drive
from staleloc.sim.targets.base import FreeSlots, Rows, Target, TargetError
from staleloc.sim.targets.builtin import BuiltinTarget
from staleloc.sim.targets.mutants import MUTANTS
from staleloc.sim.targets.mutants.transform import load_builtin

SLOTS = Config(policy="uncached", page_size=1, full_size=6, swa_size=4, layers=("full", "swa"), window=4)
PAGES = Config(policy="uncached", page_size=4, full_size=24, swa_size=16, layers=("full", "swa"), window=4)
MEMO = Config(policy="memo", page_size=1, full_size=6, swa_size=4, layers=("full", "swa"), window=4)

TWO = Alloc(0, 2)
TWO_PAGED = AllocExtend(((0, 2),))
BATCH = BeginForward(((0, 0, 2),))
WRITTEN = (TWO, BATCH, WriteKv(0), WriteKv(1))

HYBRID = BuiltinTarget.profiles[0]

Alteration = Callable[..., Any]


class Altered(BuiltinTarget):
    """The builtin target, whose answers from some call of a method on are altered.

    Args:
        method: name of the method.
        alteration: gets the target and the true answer, and returns the answer given instead.
        call: first call (from 0) that is altered.
    """

    def __init__(self, method: str, alteration: Alteration, call: int = 0) -> None:
        self.method = method
        self.alteration = alteration
        self.call = call
        self.calls = -1

    def __getattribute__(self, name: str) -> Any:
        value = super().__getattribute__(name)
        if name != super().__getattribute__("method"):
            return value

        def altered(*arguments: Any) -> Any:
            answer = value(*arguments)
            self.calls += 1
            return self.alteration(self, answer) if self.calls >= self.call else answer

        return altered


class Case(NamedTuple):
    """A tape whose last event fires a check on the target, with a class and a fact."""

    kind: str
    what: str
    target: Callable[[], Target]
    events: tuple[Event, ...]
    config: Config = SLOTS


def altered(method: str, alteration: Alteration, call: int = 0) -> Callable[[], Target]:
    return lambda: Altered(method, alteration, call)


def answering(method: str, answer: object, call: int = 0) -> Callable[[], Target]:
    """A target whose method gives this answer, whatever the true one is."""
    return altered(method, lambda target, true: answer, call)


def mutant(name: str) -> Callable[[], Target]:
    return lambda: load_builtin(MUTANTS[name])


def moved_entries(by: int) -> Alteration:
    """The table with every mapped entry moved."""
    return lambda target, table: [swa + by if swa else 0 for swa in table]


def entry(loc: int, swa: int) -> Alteration:
    """The table with one entry changed."""
    return lambda target, table: [*table[:loc], swa, *table[loc + 1 :]]


def same(pages: list[int]) -> list[int]:
    return pages


def listed(full: Callable[[list[int]], list[int]] = same, swa: Callable[[list[int]], list[int]] = same) -> Alteration:
    """Free lists, one of them changed."""
    return lambda target, free: FreeSlots(full(free.full), swa(free.swa))


def moved_rows(layer: int, target_slot: int, source_slot: int) -> Alteration:
    """After the call, one row of a layer is in another slot, and its own slot is empty."""

    def move(target: Altered, answer: object) -> object:
        for buffer in target._pool.layer_buffers(layer):
            buffer[target_slot] = buffer[source_slot]
            buffer[source_slot] = 0
        return answer

    return move


def emptied(layer: int, slot: int) -> Alteration:
    """After the call, a slot of a layer is empty."""

    def clear(target: Altered, answer: object) -> object:
        for buffer in target._pool.layer_buffers(layer):
            buffer[slot] = 0
        return answer

    return clear


def raising(error: BaseException) -> Alteration:
    def fail(target: Altered, answer: object) -> object:
        raise error

    return fail


class Refusing(BuiltinTarget):
    """There is never room."""

    def alloc(self, count: int) -> list[int] | None:
        return None


class WithoutSwa(BuiltinTarget):
    """Tokens get full slots only."""

    def alloc(self, count: int) -> list[int] | None:
        return self._allocator.full.take(count)


def reversed_rows(target: Altered, rows: Rows) -> Rows:
    assert rows.values is not None
    return Rows(rows.keys[::-1], rows.values[::-1])


def foreign_value(target: Altered, rows: Rows) -> Rows:
    """Slot 2 with its key and the value of slot 1."""
    assert rows.values is not None
    return Rows(rows.keys, [*rows.values[:2], rows.values[1], *rows.values[3:]])


BOUNDS = (
    Case("out-of-bounds", "2 tokens were asked for, 1 locs came back", answering("alloc", [1]), (TWO,)),
    Case("out-of-bounds", "full loc 0 was allocated; the pool's slots are 1 to 6", answering("alloc", [0, 1]), (TWO,)),
    Case("out-of-bounds", "full loc 7 was allocated", answering("alloc", [1, 7]), (TWO,)),
    Case("out-of-bounds", "full loc -2 was allocated", answering("alloc", [1, -2]), (TWO,)),
    Case(
        "out-of-bounds",
        "SWA loc 5 was allocated; the pool's slots are 1 to 4",
        altered("raw_mapping", entry(2, 5)),
        (TWO,),
    ),
    Case("out-of-bounds", "SWA loc -1 was allocated", altered("raw_mapping", entry(2, -1)), (TWO,)),
    Case(
        "misaligned",
        "token 0 of request 0 sits at full loc 5, offset 1 of its page instead of 0",
        answering("alloc_extend", [5, 6]),
        (TWO_PAGED,),
        PAGES,
    ),
    Case(
        "misaligned",
        "token 0 of request 0 sits at SWA loc 5, offset 1 of its page instead of 0",
        altered("raw_mapping", moved_entries(1)),
        (TWO_PAGED,),
        PAGES,
    ),
)

ALIAS = (
    Case(
        "alias",
        "full loc 2 went to token 0 of request 1, but request 0 owns it",
        answering("alloc", [2], 1),
        (TWO, Alloc(1, 1)),
    ),
    Case(
        "alias",
        "full loc 3 went to token 1 of request 0, but another token of this event got it too",
        answering("alloc", [3, 3]),
        (TWO,),
    ),
    Case(
        "alias",
        "SWA loc 2 went to token 0 of request 1, but request 0 owns it",
        altered("raw_mapping", entry(3, 2), 1),
        (TWO, Alloc(1, 1)),
    ),
    Case(
        "alias",
        "SWA loc 1 went to token 1 of request 0, but another token of this event got it too",
        altered("raw_mapping", entry(2, 1)),
        (TWO,),
    ),
    Case(
        "alias",
        "SWA loc 2 went to token 0 of request 0, but request 0 owns it",
        answering("set_mapping", [2]),
        (TWO, FreeSwa(0, 0, 1), SetMapping(0, 0, 1)),
    ),
    Case(
        "alias",
        "SWA loc 1 went to token 1 of request 0, but request 0 owns it",
        answering("register_mapping", [1]),
        (TWO, RegisterMapping(0, 1, 2)),
    ),
    Case(
        "alias",
        "full loc 10 went to token 2 of request 0, but the token before it is at 5",
        answering("alloc_extend", [10], 1),
        (TWO_PAGED, AllocExtend(((0, 1),))),
        PAGES,
    ),
    Case(
        "alias",
        "SWA loc 10 went to token 2 of request 0, but the token before it is at 5",
        altered("raw_mapping", entry(6, 10), 1),
        (TWO_PAGED, AllocExtend(((0, 1),))),
        PAGES,
    ),
)

OWNERSHIP = (
    Case(
        "out-of-bounds",
        "the full pool's free list holds slot 0; its slots are 1 to 6",
        altered("raw_free", listed(full=lambda pages: [0, *pages])),
        (Clear(),),
    ),
    Case(
        "out-of-bounds",
        "the SWA pool's free list holds slot 5; its slots are 1 to 4",
        altered("raw_free", listed(swa=lambda pages: [*pages, 5])),
        (Clear(),),
    ),
    Case(
        "use-after-free",
        "full slot 1 is in the free list while request 0 owns it",
        altered("raw_free", listed(full=lambda pages: [1, *pages])),
        (TWO,),
    ),
    Case(
        "use-after-free",
        "SWA slot 2 is in the free list while request 0 owns it",
        altered("raw_free", listed(swa=lambda pages: [2, *pages])),
        (TWO,),
    ),
    Case(
        "double-free",
        "full slot 6 is in the free list more than once",
        altered("raw_free", listed(full=lambda pages: [6, *pages])),
        (TWO,),
    ),
    Case(
        "double-free",
        "SWA slot 3, 4 is in the free list more than once",
        altered("raw_free", listed(swa=lambda pages: pages * 2)),
        (TWO,),
    ),
    Case(
        "double-free",
        "full page 1 is in the free list more than once",
        mutant("free-repeats-page"),
        (AllocExtend(((0, 4),)), Free(0, 0)),
        PAGES,
    ),
)

STALE = Case(
    "stale-translation",
    "full loc 1 translates to 1, expected 3",
    mutant("memo-drop-invalidate-register-mapping"),
    (TWO, BATCH, Translate("batch", 0, 0, 1), RegisterMapping(0, 0, 1), Translate("batch", 0, 0, 1)),
    MEMO,
)

TRANSLATION = (
    STALE,
    Case(
        "stale-translation",
        "full loc 2 translates to 1, expected 2",
        answering("translate", [1, 1]),
        (TWO, Translate("fresh", 0, 0, 2)),
    ),
    Case(
        "stale-translation",
        "full loc 1 translates to 9, expected 1 (2 locs differ)",
        answering("translate_batch", [9, 9]),
        (TWO, BATCH, Translate("batch", 0, 0, 2)),
    ),
    Case(
        "stale-translation",
        "full loc -1 translates to 0, expected -1",
        answering("translate", [1, 2, 0]),
        (TWO, Translate("padded", 0, 0, 2)),
    ),
    Case(
        "stale-translation",
        "2 locs were translated into 1 answers",
        answering("translate", [1]),
        (TWO, Translate("view", 0, 0, 2)),
    ),
    Case(
        "stale-translation",
        "full loc 1 was written at layer 1 to SWA slot 2, expected 1",
        altered("write_kv", moved_rows(1, 2, 1), 1),
        (Alloc(0, 1), Alloc(1, 1), BeginForward(((0, 0, 1),)), WriteKv(0), WriteKv(1)),
    ),
    Case(
        "stale-translation",
        "full loc 1 was written at layer 1 to SWA slot 0, expected 1",
        altered("write_kv", moved_rows(1, 0, 1), 1),
        (Alloc(0, 1), BeginForward(((0, 0, 1),)), WriteKv(0), WriteKv(1)),
    ),
    Case(
        "stale-translation",
        "full loc 1 was read at layer 1 from SWA slot 2, expected 1",
        altered("read_kv", reversed_rows),
        (*WRITTEN, ReadKv(1)),
    ),
)

MAPPING = (
    Case(
        "wrong-mapping",
        "the mapping of full loc 1 is 1, expected 0 (2 entries differ)",
        mutant("clear-keeps-mapping"),
        (TWO, Clear()),
    ),
    Case(
        "wrong-mapping",
        "the mapping of full loc 2 is 0, expected 2",
        altered("raw_mapping", entry(2, 0), 1),
        (TWO, Translate("fresh", 0, 0, 1)),
    ),
    Case("wrong-mapping", "the mapping of full loc 5 is 3, expected 0", altered("raw_mapping", entry(5, 3)), (TWO,)),
    Case(
        "wrong-mapping",  # inside a group an entry may be the old one or none, and nothing else
        "the mapping of full loc 1 is 2, expected 0",
        altered("raw_mapping", entry(1, 2), 2),
        (TWO, FreeGroupBegin(), Free(0, 0)),
    ),
    Case(
        "wrong-mapping",
        "the mapping has 8 entries instead of 7",
        altered("raw_mapping", lambda target, table: [*table, 0]),
        (TWO,),
    ),
    Case(
        "wrong-mapping",
        "token 0 of request 0 is due an SWA slot, and full loc 1 was mapped to none",
        WithoutSwa,
        (TWO,),
    ),
    Case(
        "wrong-mapping",
        "the mapping of full loc 5 is 9, expected 0",
        altered("raw_mapping", entry(5, 9)),
        (AllocExtendSwaTail(0, 8, 4),),
        PAGES,
    ),
)

CONSERVATION = (
    Case("leak", "the allocation was refused although it fits: 6 full and 4 SWA slots are free", Refusing, (TWO,)),
    Case(
        "leak",
        "full slot 3 has no owner and is in no free list",
        altered("raw_free", listed(full=lambda pages: pages[1:])),
        (TWO,),
    ),
    Case(
        "leak",
        "SWA slot 3, 4 has no owner and is in no free list",
        altered("raw_free", listed(swa=lambda pages: [])),
        (TWO,),
    ),
    Case(
        "leak",
        "SWA page 1 has no owner and is in no free list",
        mutant("register-mapping-leaks"),
        (AllocExtend(((0, 4),)), RegisterMapping(0, 0, 4)),
        PAGES,
    ),
)

MASK = (
    Case(
        "mask-asymmetry",
        "the copy holds the SWA row for full loc 1, but it did not arrive in slot 3 of layer 1",
        altered("load_cpu_copy", emptied(1, 3)),
        (*WRITTEN, CpuCopy(0, 0, 0, 2), RegisterMapping(0, 0, 1), LoadCpuCopy(0, 0, 0)),
    ),
    Case(
        "mask-asymmetry",
        "the copy holds no SWA row for full loc 1, but slot 3 of layer 1 was overwritten",
        altered("load_cpu_copy", moved_rows(1, 3, 2)),
        (*WRITTEN, FreeSwa(0, 0, 1), CpuCopy(0, 0, 0, 2), SetMapping(0, 0, 1), LoadCpuCopy(0, 0, 0)),
    ),
)

CONTENTS = (
    Case(
        "wrong-content",
        "slot 2 of layer 0 holds nothing, expected token 1 of request 0 (layer 0, event {2})",
        altered("write_kv", emptied(0, 2)),
        WRITTEN[:3],
    ),
    Case(
        "wrong-content",
        "slot 1 of layer 1 holds nothing, expected token 0 of request 0 (layer 1, event {3})",
        altered("write_kv", emptied(1, 1), 1),
        WRITTEN,
    ),
    Case(
        "wrong-content",
        "slot 1 of layer 0 holds an unwritten row (77), expected token 0 of request 0",
        altered("raw_contents", lambda target, rows: Rows([0, 77, *rows.keys[2:]], None)),
        WRITTEN[:3],
    ),
    Case(
        "wrong-content",
        "slot 2 of layer 1 holds key token 1 of request 0 (layer 1, event {3}) with value token 0 of request 0",
        altered("raw_contents", foreign_value, 1),
        WRITTEN,
    ),
    Case(
        "wrong-content",
        "a read of full loc 1 at layer 0 brought token 1 of request 0 (layer 0, event {2}), expected token 0",
        altered("read_kv", reversed_rows),
        (*WRITTEN, ReadKv(0)),
    ),
    Case(
        "wrong-content",
        "a read of full loc 2 at layer 1 brought an unwritten row (99), expected token 1",
        altered("read_kv", lambda target, rows: Rows([rows.keys[0], 99], None)),
        (*WRITTEN, ReadKv(1)),
    ),
    Case(
        "wrong-content",
        "slot 1 of layer 1 holds nothing, expected token 0 of request 0 (layer 1, event {3})",
        altered("end_forward", emptied(1, 1)),
        (*WRITTEN, EndForward()),
    ),
    Case(
        "wrong-content",
        "slot 2 of layer 1 holds key token 0 of request 0",
        mutant("move-forgets-values"),
        (*WRITTEN, Move(0, 0, 1, 1)),
    ),
)

CRASH = (
    Case(
        "crash",
        "alloc raised RuntimeError: out of luck",
        altered("alloc", raising(RuntimeError("out of luck\nand more"))),
        (TWO,),
    ),
    Case("crash", "clear raised AssertionError", altered("clear", raising(AssertionError())), (Clear(),)),
    Case(
        "crash",
        "free raised IndexError: lost",
        altered("raw_free", raising(IndexError("lost")), 1),
        (TWO, Free(0, 0)),
    ),
)

AVAILABILITY = (
    Case(
        "leak",
        "the allocator says that 5 full tokens are available, and 4 are",
        altered("raw_free", lambda target, free: replace(free, room=(5, free.room[1]))),
        (TWO,),
    ),
    Case(
        "leak",
        "the allocator says that 8 SWA tokens are available, and 2 are",
        altered("raw_free", lambda target, free: replace(free, room=(free.room[0], 8))),
        (TWO,),
    ),
)

CASES: dict[str, tuple[Case, ...]] = {
    "bounds": BOUNDS,
    "alias": ALIAS,
    "ownership": OWNERSHIP,
    "translation": TRANSLATION,
    "mapping": MAPPING,
    "conservation": CONSERVATION,
    "availability": AVAILABILITY,
    "mask": MASK,
    "contents": CONTENTS,
    "crash": CRASH,
}
"""Check -> what fires it."""

EACH = [pytest.param(check, case, id=f"{check}: {case.what}") for check, cases in CASES.items() for case in cases]


def played(case: Case, target: Target) -> Divergence | None:
    return drive(Tape(case.config, case.events), target, HYBRID).divergence


@pytest.mark.parametrize(("check", "case"), EACH)
def test_a_misbehaving_target_fires_its_check(check: str, case: Case) -> None:
    """The class, the check and the fact are those of the misbehaviour, at the event at which it happened."""
    divergence = played(case, case.target())
    assert divergence is not None
    assert (divergence.kind, divergence.check) == (case.kind, check)
    assert case.what in divergence.what
    assert divergence.event == len(case.events) - 1


@pytest.mark.parametrize(("check", "case"), EACH)
def test_no_check_fires_on_correct_code(check: str, case: Case) -> None:
    """The same tape on the target as it is."""
    assert played(case, BuiltinTarget()) is None


def test_every_class_is_produced_here_or_by_a_worker() -> None:
    """What is left needs a process (a hang) or events of the engine level."""
    elsewhere = {"hang", "race", "graph-pollution", "over-admission", "starvation", "lost-hit"}
    assert {case.kind for cases in CASES.values() for case in cases} == set(CLASSES) - elsewhere


def test_every_check_fires_here() -> None:
    """A check that nothing here fires could be dropped unseen."""
    assert list(CASES) == [*(check.name for check in CHECKS), "crash"]
    assert all(CASES.values())


def test_a_check_is_asked_before_or_after_the_world_takes_slots_over() -> None:
    """Bounds and alias look at what was handed out; everything else looks at what came of it."""
    assert [check.name for check in EARLY] == ["bounds", "alias"]


# Why


def test_a_stale_translation_knows_its_history() -> None:
    """When the loc became stale, when its use was last right, and why, by event."""
    divergence = played(STALE, STALE.target())
    assert divergence is not None
    (row,) = divergence.rows
    assert (row.loc, row.expected, row.actual, row.stale_at, row.last_correct) == (1, 3, 1, 3, 2)
    assert divergence.sentence == (
        "translated at event {2}, mapping of full loc 1 changed from 1 to 3 at event {3} by [3], "
        "and the old translation was used at event {4}"
    )


def test_an_answer_for_another_loc_names_that_loc() -> None:
    """The slot is somebody else's translation, not an older one of the same loc."""
    events = (TWO, Translate("fresh", 0, 0, 2))
    divergence = drive(Tape(SLOTS, events), Altered("translate", lambda target, answer: [1, 1]), HYBRID).divergence
    assert divergence is not None
    assert divergence.sentence == ("SWA slot 1 is the translation of full loc 1, used for full loc 2 at event {1}")


@pytest.mark.parametrize(
    ("target", "events", "sentence"),
    [
        (
            mutant("clear-keeps-mapping"),
            (TWO, Clear()),
            "full loc 1 was mapped to 1 at event {0} and must have no SWA slot since event {1}, but its entry survived",
        ),
        (
            altered("raw_mapping", entry(2, 0), 1),
            (TWO, Clear()),
            None,
        ),
        (
            altered("raw_mapping", entry(2, 0), 1),
            (TWO, BATCH),
            "full loc 2 has its SWA slot 2 since event {0}, but its entry was cleared",
        ),
        (altered("raw_mapping", entry(5, 3)), (TWO,), "event {0} left the entry of full loc 5 at 3"),
    ],
)
def test_a_wrong_entry_is_explained(
    target: Callable[[], Target], events: tuple[Event, ...], sentence: str | None
) -> None:
    """An entry that survived, one that was cleared too early, and one that nobody asked for."""
    divergence = drive(Tape(SLOTS, events), target(), HYBRID).divergence
    assert (divergence.sentence if divergence else None) == sentence


# What is not a divergence


class EarlyRelease(BuiltinTarget):
    """Makes SWA slots available inside a free group already, as SGLang did up to 0.5.17."""

    def free_swa(self, locs: list[int]) -> None:
        allocator = self._allocator
        group, allocator._group = allocator._group, None
        super().free_swa(locs)
        allocator._group = group


GROUPED = (TWO, FreeGroupBegin(), FreeSwa(0, 0, 1), SetMapping(0, 0, 1), Free(0, 0), FreeGroupEnd(), Alloc(0, 4))


@pytest.mark.parametrize(
    ("target", "events"),
    [
        (EarlyRelease, GROUPED),
        (BuiltinTarget, GROUPED),
        (mutant("group-resolves-late"), (TWO, FreeGroupBegin(), FreeSwa(0, 0, 1), FreeGroupEnd(), Alloc(0, 1))),
    ],
)
def test_slots_freed_in_a_group_may_be_available_and_unmapped_early_or_late(
    target: Callable[[], Target], events: tuple[Event, ...]
) -> None:
    """Nobody may ask for them before the group ends, so both are right."""
    assert drive(Tape(SLOTS, events), target(), HYBRID).divergence is None


def test_an_allocation_that_does_not_fit_may_be_refused() -> None:
    """Seven tokens do not fit in six slots; that is a situation and no divergence."""
    verdict = drive(Tape(SLOTS, (Alloc(0, 7), TWO)), BuiltinTarget(), HYBRID)
    assert verdict.divergence is None
    assert verdict.seen["exhausted"] == 1


def test_the_dummy_slot_may_hold_anything() -> None:
    """Rows of unmapped tokens go there, and no check compares them."""
    events = (TWO, FreeSwa(0, 0, 1), BATCH, WriteKv(0), WriteKv(1), ReadKv(1), EndForward())
    assert drive(Tape(SLOTS, events), BuiltinTarget(), HYBRID).divergence is None


def test_a_harness_that_cannot_drive_the_target_says_so() -> None:
    """A TargetError is no verdict about the engine."""
    with pytest.raises(TargetError, match="no such thing"):
        drive(Tape(SLOTS, (TWO,)), Altered("alloc", raising(TargetError("no such thing"))), HYBRID)


def test_an_error_of_the_harness_is_not_blamed_on_the_target() -> None:
    """The target answers with something that is no list; what fails is our own code."""
    with pytest.raises(TypeError):
        drive(Tape(SLOTS, (TWO,)), Altered("alloc", lambda target, answer: 5), HYBRID)


# Probing never disturbs


class Recorded:
    """A target that keeps all its answers, and is probed as often as asked after every call."""

    def __init__(self, target: Target, probes: int) -> None:
        self._target = target
        self._probes = probes
        self.answers: list[object] = []

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._target, name)
        if not callable(method) or name.startswith("raw_"):
            return method

        def call(*arguments: Any) -> Any:
            answer = method(*arguments)
            self.answers.append((name, answer))
            if name == "build":
                self.layers = range(len(arguments[0].layers))
            for _ in range(self._probes):
                self._target.raw_mapping()
                self._target.raw_free()
                for layer in self.layers:
                    self._target.raw_contents(layer)
                self._target.cache_hits()
            return answer

        return call


@pytest.mark.parametrize("name", ["builtin", "memo-drop-invalidate-free-swa", "first-layer-drop-invalidate-free-swa"])
def test_probing_never_disturbs(name: str) -> None:
    """Looked at ten times more after every call, a target gives the same answers, hits and verdict."""
    hits = 0
    for index in range(25):
        records = []
        for probes in (0, 10):
            target = Recorded(BuiltinTarget() if name == "builtin" else load_builtin(MUTANTS[name]), probes)
            profiles = [profile for profile in target.profiles if profile.level == "allocator"]
            tape = generate(seeded(1, index), profiles)
            profile = next(profile for profile in profiles if profile.pool == tape.config.pool)
            verdict = drive(tape, target, profile)
            records.append((target.answers, verdict))
            hits += target.cache_hits()
        assert records[0] == records[1]
    assert hits

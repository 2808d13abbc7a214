"""Every mutant of the builtin target, shown by a short legal tape that the clean target passes."""

from __future__ import annotations

import pytest

from staleloc.models.config import Config
from staleloc.sim.core.event import Event
from staleloc.sim.core.tape import Tape
from staleloc.sim.parts.allocator.events import (
    Alloc,
    AllocDecode,
    AllocExtend,
    AllocExtendSwaTail,
    Backup,
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
    RegisterMapping,
    Restore,
    SetMapping,
    Translate,
    WriteKv,
)
from staleloc.sim.parts.allocator.ledger import Ledger
from staleloc.sim.parts.drive import drive
from staleloc.sim.targets.builtin import BuiltinTarget
from staleloc.sim.targets.mutants import MUTANTS
from staleloc.sim.targets.mutants.transform import load_builtin

Shape = dict[str, object]

_LAYERS = ("full", "swa")
_SLOTS: Shape = {"page_size": 1, "full_size": 4, "swa_size": 4, "layers": _LAYERS}
_PAGES: Shape = {"page_size": 4, "full_size": 16, "swa_size": 16, "layers": _LAYERS}
_ONE_PAGE: Shape = _PAGES | {"full_size": 4, "swa_size": 4}
_TWO_PAGES: Shape = _PAGES | {"full_size": 8, "swa_size": 8}


def whole(count: int) -> Translate:
    """Translate all of the running batch."""
    return Translate("batch", 0, 0, count)


def forward(request: int, start: int, stop: int, precomputed: bool = False) -> BeginForward:
    return BeginForward(((request, start, stop),), "reused", 0, precomputed)


def written(request: int, count: int) -> tuple[Event, ...]:
    """A forward that writes a request's first tokens at both layers."""
    return forward(request, 0, count), WriteKv(0), WriteKv(1), EndForward()


def remapped_between_answers(change: Event) -> tuple[Event, ...]:
    """A batch of one token is translated before and after a change."""
    return Alloc(0, 2), forward(0, 0, 1), whole(1), change, whole(1)


_INVALIDATIONS: dict[str, tuple[Shape, tuple[Event, ...]]] = {
    "alloc": (_SLOTS, (Alloc(0, 4), forward(0, 0, 4), Free(0, 0), whole(4), Alloc(1, 4), whole(4))),
    "alloc-extend": (
        _ONE_PAGE,
        (AllocExtend(((0, 4),)), forward(0, 0, 4), Free(0, 0), whole(4), AllocExtend(((1, 4),)), whole(4)),
    ),
    "alloc-decode": (
        _TWO_PAGES,
        (AllocExtend(((0, 4), (1, 4))), forward(0, 0, 4), Free(0, 0), whole(4), AllocDecode((1,)), whole(4)),
    ),
    "alloc-extend-swa-tail": (
        _ONE_PAGE,
        (AllocExtend(((0, 4),)), forward(0, 0, 4), Free(0, 0), whole(4), AllocExtendSwaTail(1, 4, 4), whole(4)),
    ),
    "free": (_SLOTS, remapped_between_answers(Free(0, 0))),
    "free-swa": (_SLOTS, remapped_between_answers(FreeSwa(0, 0, 1))),
    "set-mapping": (_SLOTS, (Alloc(0, 1), FreeSwa(0, 0, 1), forward(0, 0, 1), whole(1), SetMapping(0, 0, 1), whole(1))),
    "register-mapping": (_SLOTS, remapped_between_answers(RegisterMapping(0, 0, 1))),
    "clear": (_SLOTS, remapped_between_answers(Clear())),
    "begin-forward": (
        _SLOTS,
        (Alloc(0, 2), forward(0, 0, 1), whole(1), EndForward(), forward(0, 1, 2), whole(1)),
    ),
}

_TAPES: dict[str, tuple[Shape, tuple[Event, ...]]] = {
    **{f"memo-drop-invalidate-{site}": shown for site, shown in _INVALIDATIONS.items()},
    **{f"first-layer-drop-invalidate-{site}": shown for site, shown in _INVALIDATIONS.items()},
    **{
        f"{policy}-no-invalidate-in-a-group": (
            _SLOTS,
            (Alloc(0, 1), forward(0, 0, 1), whole(1), FreeGroupBegin(), FreeSwa(0, 0, 1), FreeGroupEnd(), whole(1)),
        )
        for policy in ("memo", "first-layer")
    },
    # Keys
    "memo-key-storage-base": (
        _SLOTS,
        (Alloc(0, 2), forward(0, 0, 2), Translate("batch", 0, 0, 1), Translate("batch", 0, 1, 2)),
    ),
    "memo-key-without-numel": (_SLOTS, (Alloc(0, 2), forward(0, 0, 2), Translate("batch", 0, 0, 1), whole(2))),
    "memo-key-length-only": (_SLOTS, (Alloc(0, 2), Translate("fresh", 0, 0, 1), Translate("fresh", 0, 1, 2))),
    "side-channel-keeps-previous": (
        _SLOTS,
        (Alloc(0, 2), forward(0, 0, 1, True), EndForward(), forward(0, 1, 2), WriteKv(0), WriteKv(1)),
    ),
    "side-channel-sliced-from-front": (_SLOTS, (Alloc(0, 2), forward(0, 0, 2, True), Translate("batch", 0, 1, 2))),
    "side-channel-answers-everything": (_SLOTS, (Alloc(0, 2), forward(0, 0, 1, True), Translate("fresh", 0, 1, 2))),
    "first-layer-start-layer-only": (
        _SLOTS,
        (Alloc(0, 2), *written(0, 1), forward(0, 1, 2), WriteKv(0), WriteKv(1)),
    ),
    "first-layer-replaced-mapping-only": _INVALIDATIONS["free-swa"],
    "first-layer-answers-everything": (_SLOTS, (Alloc(0, 2), forward(0, 0, 1), whole(1), Translate("fresh", 0, 1, 2))),
    # Allocation
    "alloc-hands-out-padding": (_SLOTS, (Alloc(0, 1),)),
    "available-forgets-released": (_SLOTS | {"need_sort": True}, (Alloc(0, 1), Free(0, 0))),
    "alloc-refusal-keeps-slots": (_SLOTS | {"swa_size": 2}, (Alloc(0, 3),)),
    "extend-refusal-keeps-pages": (_PAGES | {"swa_size": 4}, (AllocExtend(((0, 8),)),)),
    "extend-runs-past-page": (_PAGES, (AllocExtend(((0, 4), (1, 4))), AllocExtend(((0, 4),)))),
    "decode-follows-full-loc": (_PAGES, (AllocExtendSwaTail(0, 6, 2), AllocDecode((0,)))),
    "tail-keeps-former-owner": (
        _TWO_PAGES,
        (Backup(), AllocExtend(((0, 8),)), Restore(), AllocExtendSwaTail(1, 8, 4)),
    ),
    "sort-loses-free-list": (_SLOTS | {"need_sort": True}, (Alloc(0, 3), Free(0, 0), Alloc(1, 2))),
    "sort-keeps-released": (_SLOTS | {"need_sort": True}, (Alloc(0, 3), Free(0, 0), Alloc(1, 2))),
    "backup-shares-free-list": (_SLOTS, (Backup(), Alloc(0, 1), Restore())),
    "restore-without-mapping": (_SLOTS, (Backup(), Alloc(0, 1), Restore())),
    # Release
    "free-leaves-entries": (_SLOTS, (Alloc(0, 1), Free(0, 0))),
    "free-repeats-page": (_PAGES, (AllocExtend(((0, 4),)), Free(0, 0))),
    "free-swa-clears-given-locs": (_PAGES, (AllocExtend(((0, 4),)), FreeSwa(0, 0, 1))),
    "free-releases-padding": (_SLOTS, (Alloc(0, 1), FreeSwa(0, 0, 1), Free(0, 0))),
    "group-end-frees-twice": (_SLOTS, (Alloc(0, 1), FreeGroupBegin(), Free(0, 0), FreeGroupEnd(), FreeGroupEnd())),
    "group-resolves-late": (
        _SLOTS,
        (Alloc(0, 1), FreeGroupBegin(), FreeSwa(0, 0, 1), SetMapping(0, 0, 1), FreeGroupEnd()),
    ),
    "clear-forgets-released": (_SLOTS | {"need_sort": True}, (Alloc(0, 1), Free(0, 0), Clear())),
    "clear-keeps-mapping": (_SLOTS, (Alloc(0, 1), Clear())),
    "clear-zeroes-sentinel": (_SLOTS, (Clear(), Alloc(0, 1), Translate("padded", 0, 0, 1))),
    "register-mapping-misses-pool": (_SLOTS, (Alloc(0, 1), RegisterMapping(0, 0, 1))),
    "register-mapping-leaks": (_SLOTS, (Alloc(0, 1), RegisterMapping(0, 0, 1))),
    # Contents
    "cpu-copy-without-mask": (
        _SLOTS,
        (
            *(Alloc(0, 1), FreeSwa(0, 0, 1), *written(0, 1)),
            *(CpuCopy(0, 0, 0, 1), SetMapping(0, 0, 1), LoadCpuCopy(0, 0, 0)),
        ),
    ),
    "cpu-load-old-mask-only": (_SLOTS, (Alloc(0, 1), CpuCopy(0, 0, 0, 1), FreeSwa(0, 0, 1), LoadCpuCopy(0, 0, 0))),
    "cpu-load-forgets-positions": (
        _SLOTS,
        (
            *(Alloc(0, 2), *written(0, 2), FreeSwa(0, 0, 1)),
            *(CpuCopy(0, 0, 0, 2), SetMapping(0, 0, 1), LoadCpuCopy(0, 0, 0)),
        ),
    ),
    "cpu-load-to-old-slots": (
        _SLOTS,
        (Alloc(0, 1), *written(0, 1), CpuCopy(0, 0, 0, 1), Alloc(1, 1), LoadCpuCopy(0, 1, 0)),
    ),
    "cpu-load-loses-last-chunk": (
        _SLOTS,
        (Alloc(0, 1), *written(0, 1), CpuCopy(0, 0, 0, 1), Alloc(1, 1), LoadCpuCopy(0, 1, 0)),
    ),
    "cpu-load-filter-drops-values": (
        _SLOTS,
        (
            *(Alloc(0, 2), *written(0, 2), CpuCopy(0, 0, 0, 2)),
            *(Alloc(1, 2), FreeSwa(1, 0, 1), LoadCpuCopy(0, 1, 0)),
        ),
    ),
    "move-forgets-values": (_SLOTS, (Alloc(0, 2), *written(0, 2), Move(0, 0, 1, 1))),
    "move-in-full-pool-only": (_SLOTS, (Alloc(0, 2), *written(0, 2), Move(0, 0, 1, 1))),
}


def test_every_builtin_mutant_has_a_tape() -> None:
    """None of the allocator level is listed that nothing shows."""
    assert set(_TAPES) == {
        name for name, mutant in MUTANTS.items() if (mutant.target, mutant.level) == ("builtin", "allocator")
    }


@pytest.mark.parametrize("name", _TAPES)
def test_the_last_event_of_the_tape_shows_the_mutant(name: str) -> None:
    """Every event is legal; the clean target passes, and the mutant diverges at the end, with each policy it names."""
    mutant = MUTANTS[name]
    shape, events = _TAPES[name]
    ledger = Ledger(Config(pool=mutant.pool, **shape))  # type: ignore[arg-type]
    for event in events:
        assert event.violation(ledger) is None, f"{event}: {event.violation(ledger)}"
        ledger.apply(event)
    mutated = load_builtin(mutant)
    (profile,) = mutant.profiles(mutated.profiles)
    for policy in profile.policies:
        tape = Tape(Config(pool=mutant.pool, policy=policy, **shape), events)  # type: ignore[arg-type]
        assert drive(tape, BuiltinTarget(), mutant.profiles(BuiltinTarget.profiles)[0]).divergence is None
        divergence = drive(tape, mutated, profile).divergence
        assert divergence is not None
        assert divergence.event == len(events) - 1

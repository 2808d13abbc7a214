"""Repair: what is illegal is clipped or dropped, what is legal stays."""

from __future__ import annotations

from dataclasses import replace

import pytest

from staleloc.models.config import Config
from staleloc.sim.core.choices import seeded
from staleloc.sim.core.event import Event
from staleloc.sim.parts.allocator.events import (
    Alloc,
    AllocDecode,
    AllocExtend,
    AllocExtendSwaTail,
    BeginForward,
    CpuCopy,
    EndForward,
    Free,
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
from staleloc.sim.tapes.reshape import repair
from staleloc.sim.targets.builtin import BuiltinTarget

HYBRID, DSV4 = BuiltinTarget.profiles
PAGES = Config(policy="memo", page_size=4, full_size=24, swa_size=16)
SIX = AllocExtend(((0, 6),))
EVICTED = FreeSwa(0, 0, 6)
BATCH = BeginForward(((0, 0, 6),))


@pytest.mark.parametrize("index", range(60))
def test_a_legal_tape_stays_as_it_is(index: int) -> None:
    """There is nothing to repair in what was generated."""
    tape = generate(seeded(2, index), BuiltinTarget.profiles)
    profile = HYBRID if tape.config.pool == "hybrid" else DSV4
    assert repair(tape.config, tape.events, profile) == tape.events


@pytest.mark.parametrize(
    ("setup", "event", "repaired"),
    [
        ((SIX,), FreeSwa(0, 4, 99), FreeSwa(0, 4, 6)),
        ((SIX,), FreeSwa(0, 8, 12), None),
        ((SIX,), FreeSwa(5, 0, 4), None),
        ((SIX,), Free(0, 3), Free(0, 0)),
        ((SIX,), Free(0, 60), Free(0, 4)),
        ((), Free(0, 0), None),
        ((SIX, EVICTED), SetMapping(0, 1, 6), SetMapping(0, 0, 4)),
        ((SIX, EVICTED), SetMapping(0, 4, 6), None),
        ((SIX,), RegisterMapping(0, 1, 99), RegisterMapping(0, 0, 4)),
        ((SIX,), RegisterMapping(3, 0, 8), RegisterMapping(0, 0, 0)),
        ((), AllocExtendSwaTail(0, 8, 3), AllocExtendSwaTail(0, 8, 4)),
        ((), AllocExtendSwaTail(0, 6, 5), AllocExtendSwaTail(0, 6, 6)),
        ((SIX,), AllocDecode((0, 9)), None),
        ((SIX,), BeginForward(((0, 0, 99), (7, 0, 1))), BATCH),
        ((SIX,), BeginForward(((0, 9, 12),)), BeginForward(((0, 5, 6),))),
        ((), BATCH, None),
        ((SIX, BATCH), WriteKv(5), WriteKv(0)),
        ((SIX, BATCH, WriteKv(0), WriteKv(1)), WriteKv(0), None),
        ((SIX,), WriteKv(0), None),
        ((SIX, BATCH), ReadKv(0), None),
        ((SIX,), EndForward(), None),
        ((SIX, BATCH), Translate("batch", 0, 7, 9), Translate("batch", 0, 5, 6)),
        ((SIX,), Translate("batch", 0, 0, 6), None),
        ((SIX,), Translate("padded", 0, 2, 9), Translate("padded", 0, 2, 6)),
        ((SIX,), CpuCopy(0, 0, 2, 9), CpuCopy(0, 0, 2, 6)),
        ((SIX, CpuCopy(0, 0, 0, 4)), LoadCpuCopy(0, 0, 5), LoadCpuCopy(0, 0, 2)),
        ((SIX, CpuCopy(0, 0, 0, 4)), LoadCpuCopy(1, 0, 0), None),
        ((SIX,), Move(0, 0, 4, 3), None),
        ((SIX,), Alloc(0, 1), None),
    ],
)
def test_an_event_becomes_the_nearest_legal_one(setup: tuple[Event, ...], event: Event, repaired: Event | None) -> None:
    """Spans are clipped to what is there; what cannot be saved is dropped."""
    kept = (repaired,) if repaired is not None else ()
    assert repair(PAGES, (*setup, event), HYBRID) == (*setup, *kept)


def test_what_depended_on_a_dropped_event_follows_it() -> None:
    """Without its allocation nothing of the forward is left."""
    assert repair(PAGES, (BATCH, WriteKv(0), Translate("batch", 0, 0, 6), EndForward()), HYBRID) == ()


def test_what_the_target_cannot_do_is_dropped() -> None:
    """The DeepSeek-V4-like pool has no CPU copies."""
    config = replace(PAGES, pool="dsv4", policy="first_layer")
    assert repair(config, (SIX, CpuCopy(0, 0, 0, 4), EVICTED), DSV4) == (SIX, EVICTED)


def test_a_smaller_cache_refuses_and_the_rest_follows() -> None:
    """Events stay although their allocation no longer fits: it counts as refused, and its tokens never were."""
    config = replace(PAGES, full_size=4, swa_size=4)
    assert repair(config, (SIX, AllocExtend(((1, 4),)), FreeSwa(0, 0, 4), FreeSwa(1, 0, 4)), HYBRID) == (
        SIX,
        AllocExtend(((1, 4),)),
        FreeSwa(1, 0, 4),
    )

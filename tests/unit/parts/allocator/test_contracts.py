"""Every contract broken once: a legal beginning, and the one event that a scheduler would not do next."""

from __future__ import annotations

from typing import NamedTuple, cast

import pytest

from staleloc.models.config import Config
from staleloc.sim.core.choices import seeded
from staleloc.sim.parts.allocator.event import AllocatorEvent
from staleloc.sim.parts.allocator.events import (
    EVENTS,
    SOURCES,
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
    ReadKv,
    RegisterMapping,
    Restore,
    SetMapping,
    Translate,
    WriteKv,
)
from staleloc.sim.parts.allocator.forwards import MAX_BATCH_OFFSET
from staleloc.sim.parts.allocator.generate import generate
from staleloc.sim.parts.allocator.ledger import Ledger
from staleloc.sim.targets.builtin import BuiltinTarget

SLOTS = Config(page_size=1, full_size=8, swa_size=8)
PAGES = Config(page_size=4, full_size=24, swa_size=16)

SIX = AllocExtend(((0, 6),))
EIGHT = AllocExtend(((0, 8),))
OTHER_EIGHT = AllocExtend(((1, 8),))
EVICT = FreeSwa(0, 0, 4)
COPY = CpuCopy(0, 0, 0, 4)
GROUP = FreeGroupBegin()
DRAFT = Backup()
BATCH = BeginForward(((0, 0, 6),))
FROZEN = BeginForward(((0, 0, 6),), precomputed=True)
LOST = (SIX, BATCH, WriteKv(0), Free(0, 0))


class Broken(NamedTuple):
    """After `setup`, `event` breaks the rule whose reason holds `reason`."""

    setup: tuple[AllocatorEvent, ...]
    event: AllocatorEvent
    reason: str
    config: Config = PAGES


_BETWEEN = "slots freed in an open free group are neither free nor owned"
_DRAFTING = "between backup and restore a draft only allocates and runs"
_OUTSIDE = "the span must lie inside the request's tokens"
_WHOLE = "mappings change by whole pages"
_ONCE = "its mapping may not change before it ends"
_NO_FORWARD = "no forward is running, or a request of its batch has lost tokens"
_PARTLY = "a partly filled last page must have SWA slots"
_PAGED = "page size above 1"
_NO_PAGES = "the SWA pool must have the pages"

BROKEN: tuple[Broken, ...] = (
    # Allocation
    Broken((GROUP,), Alloc(0, 1), _BETWEEN, SLOTS),
    Broken((), Alloc(0, 1), "page size 1 only"),
    Broken((), Alloc(0, 0), "at least one token", SLOTS),
    Broken((GROUP,), SIX, _BETWEEN),
    Broken((), SIX, _PAGED, SLOTS),
    Broken((), AllocExtend(((0, 6), (1, 0))), "each request gets at least one token"),
    Broken((), AllocExtend(()), "each request gets at least one token"),
    Broken((), AllocExtend(((0, 1), (0, 1))), "a request is in a batch once"),
    Broken((SIX, FreeSwa(0, 4, 6)), AllocExtend(((1, 1), (0, 1))), _PARTLY),
    Broken((SIX, GROUP), AllocDecode((0,)), _BETWEEN),
    Broken((Alloc(0, 1),), AllocDecode((0,)), _PAGED, SLOTS),
    Broken((SIX,), AllocDecode((0, 0)), "a request is in a batch once"),
    Broken((SIX,), AllocDecode(()), "a request is in a batch once"),
    Broken((SIX,), AllocDecode((0, 5)), "only a request with a prefix decodes"),
    Broken((SIX, FreeSwa(0, 4, 6)), AllocDecode((0,)), _PARTLY),
    Broken((EIGHT, OTHER_EIGHT), AllocDecode((0,)), "until a decode step fits"),
    Broken((GROUP,), AllocExtendSwaTail(0, 8, 4), _BETWEEN),
    Broken((), AllocExtendSwaTail(0, 8, 4), _PAGED, SLOTS),
    Broken((), AllocExtendSwaTail(0, 4, 8), "the tail is a part of the extension"),
    Broken((), AllocExtendSwaTail(0, 4, -4), "the tail is a part of the extension"),
    Broken((), AllocExtendSwaTail(0, 0, 0), "the tail is a part of the extension"),
    Broken((), AllocExtendSwaTail(0, 8, 3), "aligns the prefix and the start of the tail"),
    Broken((SIX,), AllocExtendSwaTail(0, 8, 4), "aligns the prefix and the start of the tail"),
    # Giving up
    Broken((SIX, DRAFT), Free(0, 0), _DRAFTING),
    Broken((), Free(0, 0), "no live loc is freed twice"),
    Broken((EIGHT,), Free(0, 8), "no live loc is freed twice"),
    Broken((EIGHT,), Free(0, -4), "no live loc is freed twice"),
    Broken((SIX,), Free(0, 3), "a page has one owner"),
    Broken((SIX, FROZEN), Free(0, 4), _ONCE),
    Broken((SIX, DRAFT), EVICT, _DRAFTING),
    Broken((SIX,), FreeSwa(0, 5, 7), _OUTSIDE),
    Broken((SIX,), FreeSwa(0, 4, 4), _OUTSIDE),
    Broken((SIX, EVICT), FreeSwa(0, 2, 6), "no page is evicted twice"),
    Broken((SIX, FROZEN), FreeSwa(0, 4, 5), _ONCE),
    Broken((DRAFT,), GROUP, _DRAFTING),
    Broken((GROUP,), GROUP, "free groups do not nest"),
    Broken((DRAFT,), FreeGroupEnd(), _DRAFTING),
    # The mapping
    Broken((SIX, EVICT, DRAFT), SetMapping(0, 0, 4), _DRAFTING),
    Broken((SIX, EVICT), SetMapping(0, 0, 0), _OUTSIDE),
    Broken((SIX, FreeSwa(0, 0, 6)), SetMapping(0, 0, 6), _WHOLE),
    Broken((EIGHT, EVICT), SetMapping(0, 0, 8), "load-back and recovery map tokens that have no SWA slot"),
    Broken((EIGHT, EVICT, OTHER_EIGHT, AllocExtend(((2, 4),))), SetMapping(0, 0, 4), _NO_PAGES),
    Broken((SIX, EVICT, FROZEN), SetMapping(0, 0, 4), _ONCE),
    Broken((EIGHT, GROUP), RegisterMapping(0, 0, 4), _BETWEEN),
    Broken((EIGHT, DRAFT), RegisterMapping(0, 0, 4), _DRAFTING),
    Broken((EIGHT,), RegisterMapping(0, 4, 4), "the re-packed span must lie inside the request's tokens"),
    Broken((SIX,), RegisterMapping(0, 0, 6), _WHOLE),
    Broken((EIGHT, EVICT), RegisterMapping(0, 0, 8), "only mapped pages are re-packed"),
    Broken((EIGHT, OTHER_EIGHT), RegisterMapping(0, 0, 4), _NO_PAGES),
    Broken((SIX, FROZEN), RegisterMapping(0, 0, 4), _ONCE),
    # The state as a whole
    Broken((GROUP,), DRAFT, _BETWEEN),
    Broken((DRAFT,), DRAFT, _DRAFTING),
    Broken((SIX, BATCH), DRAFT, "the draft starts between forwards"),
    Broken((), Restore(), "there must be a backup to go back to"),
    Broken((SIX, DRAFT, BATCH), Restore(), "the draft ends between forwards"),
    Broken((GROUP,), Clear(), _BETWEEN),
    Broken((DRAFT,), Clear(), _DRAFTING),
    Broken((SIX, FROZEN), Clear(), "is not flushed under its forward"),
    # Forwards
    Broken((SIX, GROUP), BATCH, _BETWEEN),
    Broken((SIX, BATCH), BATCH, "one forward at a time"),
    Broken((SIX,), BeginForward(()), "a batch has tokens"),
    Broken((SIX,), BeginForward(((0, 0, 1), (0, 1, 2))), "a request is in a batch once"),
    Broken((SIX,), BeginForward(((0, 0, 7),)), "a batch's tokens are allocated"),
    Broken((SIX,), BeginForward(((0, 3, 3),)), "a batch's tokens are allocated"),
    Broken((SIX,), BeginForward(((0, 0, 6),), "heap"), "storage is fresh, reused or view"),
    Broken((SIX,), BeginForward(((0, 0, 6),), "reused", 3), "only a view has an offset"),
    Broken((SIX,), BeginForward(((0, 0, 6),), "view", 0), "only a view has an offset"),
    Broken((SIX,), BeginForward(((0, 0, 6),), "view", MAX_BATCH_OFFSET + 1), "only a view has an offset"),
    Broken((SIX, BATCH, GROUP), WriteKv(0), _BETWEEN),
    Broken((SIX,), WriteKv(0), _NO_FORWARD),
    Broken(LOST, WriteKv(1), _NO_FORWARD),
    Broken((SIX, BATCH), WriteKv(1), "a forward runs all layers in order"),
    Broken((SIX, BATCH, WriteKv(0)), WriteKv(0), "a forward runs all layers in order"),
    Broken((SIX, BATCH, WriteKv(0), WriteKv(1)), WriteKv(2), "the model has no such layer"),
    Broken((SIX, BATCH, WriteKv(0), GROUP), ReadKv(0), _BETWEEN),
    Broken(LOST, ReadKv(0), _NO_FORWARD),
    Broken((SIX, BATCH, WriteKv(0)), ReadKv(1), "a layer is read after it was written"),
    Broken((SIX, GROUP), Translate("fresh", 0, 0, 6), _BETWEEN),
    Broken((SIX,), Translate("heap", 0, 0, 6), f"source is one of {', '.join(SOURCES)}"),
    Broken((SIX,), Translate("fresh", 0, 0, 7), "what is translated must exist"),
    Broken((SIX,), Translate("batch", 0, 0, 6), "what is translated must exist"),
    Broken((SIX, BATCH), Translate("batch", 0, 0, 7), "what is translated must exist"),
    Broken((SIX, BATCH), Translate("batch", 1, 0, 6), "what is translated must exist"),
    Broken((), EndForward(), "no forward is running"),
    # Copies and moves
    Broken((SIX, GROUP), COPY, _BETWEEN),
    Broken((SIX,), CpuCopy(0, 0, 4, 7), _OUTSIDE),
    Broken((SIX,), CpuCopy(-1, 0, 0, 4), "a copy has a number"),
    Broken((SIX, COPY, GROUP), LoadCpuCopy(0, 0, 0), _BETWEEN),
    Broken((SIX, COPY), LoadCpuCopy(1, 0, 0), "the copy must exist"),
    Broken((SIX, COPY), LoadCpuCopy(0, 0, 3), "as many allocated tokens as it has"),
    Broken((SIX, COPY), LoadCpuCopy(0, 0, -1), "as many allocated tokens as it has"),
    Broken((SIX, GROUP), Move(0, 0, 2, 2), _BETWEEN),
    Broken((SIX,), Move(0, 0, 5, 2), "move between allocated tokens that have SWA slots"),
    Broken((EIGHT, EVICT), Move(0, 0, 4, 2), "move between allocated tokens that have SWA slots"),
    Broken((SIX,), Move(0, 0, 2, 0), "move between allocated tokens that have SWA slots"),
    Broken((SIX,), Move(0, 0, 1, 2), "source and target do not overlap"),
)


def after(setup: tuple[AllocatorEvent, ...], config: Config) -> Ledger:
    """The books after a beginning, every event of which is legal."""
    ledger = Ledger(config)
    for event in setup:
        assert event.violation(ledger) is None, event
        ledger.apply(event)
    return ledger


def broken_rules(ledger: Ledger, event: AllocatorEvent) -> list[str]:
    """Reasons of all rules that an event breaks; a rule that asks for what a broken one denies says nothing."""
    reasons = []
    for rule in event.rules:
        try:
            holds = rule.holds(ledger, event)
        except (KeyError, IndexError):
            assert reasons, "a rule fails although those before it hold"
            continue
        if not holds:
            reasons.append(rule.reason)
    return reasons


@pytest.mark.parametrize("case", BROKEN, ids=lambda case: f"{case.event.kind}: {case.reason}")
def test_an_event_that_breaks_a_contract_is_told_which(case: Broken) -> None:
    """It breaks one rule, and the answer is that rule's reason."""
    ledger = after(case.setup, case.config)
    reason = case.event.violation(ledger)
    assert reason is not None
    assert case.reason in reason
    assert broken_rules(ledger, case.event) == [reason]


def test_every_rule_is_broken_by_an_event_of_the_table() -> None:
    """A rule that nothing here breaks could be dropped unseen."""
    rules = {(kind.kind, rule.reason) for kind in EVENTS for rule in kind.rules}
    shown = {(case.event.kind, case.event.violation(after(case.setup, case.config))) for case in BROKEN}
    assert shown == rules


def test_every_event_type_has_its_rules() -> None:
    """An event without rules could do anything at any time."""
    assert all(kind.rules for kind in EVENTS)


def test_every_rule_has_a_reason_of_one_line() -> None:
    """And two rules of one event have two reasons."""
    for rules in (kind.rules for kind in EVENTS):
        reasons = [rule.reason for rule in rules]
        assert len(set(reasons)) == len(reasons)
        assert all(reason and "\n" not in reason for reason in reasons)


def test_every_rule_lets_legal_events_through() -> None:
    """On tapes that were generated, every event type is judged and every rule holds."""
    judged = set()
    for index in range(60):
        tape = generate(seeded(0, index), BuiltinTarget.profiles)
        ledger = Ledger(tape.config)
        for event in cast("tuple[AllocatorEvent, ...]", tape.events):
            assert broken_rules(ledger, event) == []
            judged.add(type(event))
            ledger.apply(event)
    assert judged == set(EVENTS)


@pytest.mark.parametrize(
    ("setup", "event"),
    [
        ((SIX, BATCH), FreeSwa(0, 0, 4)),
        ((SIX, BATCH), RegisterMapping(0, 0, 4)),
        ((SIX, EVICT, BATCH), SetMapping(0, 0, 4)),
        ((SIX, BATCH), Clear()),
        ((SIX, OTHER_EIGHT, FROZEN), FreeSwa(1, 0, 8)),
        ((SIX, FROZEN), RegisterMapping(0, 0, 0)),
        ((SIX, BATCH, Free(0, 0)), Translate("batch", 0, 0, 6)),
        ((SIX, GROUP, EVICT), SetMapping(0, 0, 4)),
        ((), FreeGroupEnd()),
        ((), AllocExtend(((0, 400),))),
        ((EIGHT, DRAFT), AllocDecode((0,))),
    ],
)
def test_what_a_scheduler_may_do_is_not_forbidden(setup: tuple[AllocatorEvent, ...], event: AllocatorEvent) -> None:
    """Mappings change under a batch that is translated late, groups end twice, allocations are refused."""
    assert event.violation(after(setup, PAGES)) is None

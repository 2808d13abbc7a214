"""Every oracle of speculative decode, fired by a target that misbehaves in one way, and quiet without it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest

from staleloc.models.config import Config
from staleloc.sim.core.event import Event
from staleloc.sim.core.tape import Tape
from staleloc.sim.parts.drive import drive_engine
from staleloc.sim.parts.engine.events import Admit, Arrive, Checkpoint, Finish, Prefill
from staleloc.sim.parts.speculative.events import Commit, DraftTree, PrepareDecode, TargetVerify
from staleloc.sim.parts.speculative.part import SPECULATIVE
from staleloc.sim.targets.base import Rows
from staleloc.sim.targets.builtin import BuiltinEngine
from staleloc.sim.targets.engine import Admission, RequestView
from staleloc.sim.targets.speculative import Branches

CONFIG = Config(
    level="engine", features=("spec",), policy="memo", page_size=4, full_size=96, swa_size=96, window=4, spec_steps=2,
    spec_topk=2, spec_draft_tokens=4,
)  # fmt: skip
V1 = (("spec_version", "v1"),)
BIGRAM = (("bigram", True),)

PROMPT = (1, 2, 1, 2, 2, 1, 1, 2)
READY = (Arrive(0, PROMPT), Admit(0), Prefill(0, 8), Checkpoint(0))
DRAFTED = (*READY, PrepareDecode((0,)), DraftTree((0,), (1, 2, 1, 2), (0, 0, 1)))
DRAFTED_V1 = (*READY, DraftTree((0,), (1, 2, 1, 2), (0, 0, 1)))
STEP = (*DRAFTED, TargetVerify((0,), (3,)))
AGAIN = (*READY, Finish(0), Arrive(1, PROMPT), Admit(1))


class SharesATokenMore(BuiltinEngine):
    def raw_requests(self) -> dict[int, RequestView]:
        return {number: replace(view, shared=view.shared + 4) for number, view in super().raw_requests().items()}


class TakesATokenMore(BuiltinEngine):
    def admit(self, request: int, tokens: list[int]) -> Admission | None:
        admission = super().admit(request, tokens)
        assert admission is not None
        return replace(admission, cached=admission.cached + 4 if admission.cached else 0)


class CountsTheBonusTwice(BuiltinEngine):
    def commit(self, requests: list[int]) -> None:
        super().commit(requests)
        self._progress[requests[0]].committed += 1


class RecordsTokens(BuiltinEngine):
    def prepare_decode(self, requests: list[int]) -> bool:
        done = super().prepare_decode(requests)
        self._requests[requests[0]].length -= 1
        return done


class RecordsMore(BuiltinEngine):
    def prepare_decode(self, requests: list[int]) -> bool:
        done = super().prepare_decode(requests)
        self._requests[requests[0]].length += 1
        return done


class KeepsTheMapping(BuiltinEngine):
    def drop_draft(self, requests: list[int]) -> None:
        kept = self._allocator.full_to_swa_index_mapping.clone()
        super().drop_draft(requests)
        self._allocator.full_to_swa_index_mapping.copy_(kept)


class CopiesNoPage(BuiltinEngine):
    def draft_branches(self, requests: list[int]) -> list[Branches]:
        branches = super().draft_branches(requests)
        empty = branches[0].slots[1][-1]
        return [replace(it, copied=(it.copied[0], tuple(empty for _ in it.copied[1]))) for it in branches]


class ReadsOtherValues(BuiltinEngine):
    def read_draft(self, locs: list[int], layer: int) -> Rows:
        rows = super().read_draft(locs, layer)
        return replace(rows, values=rows.keys)


class ForgetsTheSecondNode(BuiltinEngine):
    def write(self, requests: list[tuple[int, int, int]], layer: int, tags: list[int]) -> None:
        if requests[0][1:] == (8, 12):
            tags = [tags[0], 0, *tags[2:]]
        super().write(requests, layer, tags)


class DraftWritesElsewhere(BuiltinEngine):
    def raw_draft_contents(self, layer: int) -> Rows:
        rows = super().raw_draft_contents(layer)
        return replace(rows, keys=[*rows.keys[1:], 0])


class KeepsTheWindow(BuiltinEngine):
    def evict_window(self, request: int) -> None:
        pass


@dataclass(frozen=True)
class Case:
    """A misbehaviour, a tape that shows it at its last event, and what the divergence says."""

    target: type[BuiltinEngine]
    kind: str
    what: str
    events: tuple[Event, ...]
    changes: tuple[tuple[str, Any], ...] = ()


LONG = (
    Arrive(0, PROMPT[:3]), Admit(0), Prefill(0, 3), Checkpoint(0),
    *(
        PrepareDecode((0,)), DraftTree((0,), (1, 2, 1, 2), (0, 0, 1)), TargetVerify((0,), (3,)), Commit((0,)),
    ) * 3,
    PrepareDecode((0,)),
)  # fmt: skip

CASES: dict[str, list[Case]] = {
    "keys": [
        Case(SharesATokenMore, "misaligned", "request 0 shares 4 keys with the tree and has 0", READY[:2], BIGRAM),
        Case(TakesATokenMore, "misaligned", "request 1 was given 8 keys from the cache and can have 4", AGAIN, BIGRAM),
    ],
    "lengths": [
        Case(CountsTheBonusTwice, "wrong-content", "request 0 has 12 committed tokens, expected 11", (
            *STEP, Commit((0,)))),
        Case(RecordsTokens, "leak", "request 0 has 39 allocated tokens, expected 40", READY + DRAFTED[4:5]),
        Case(RecordsMore, "out-of-bounds", "request 0 has 41 allocated tokens, expected 40", READY + DRAFTED[4:5]),
    ],
    "leftovers": [
        Case(KeepsTheMapping, "wrong-mapping", "is free and maps to SWA loc", DRAFTED_V1, V1),
    ],
    "reads": [
        Case(CopiesNoPage, "wrong-content", "branch 1 of the draft of request 0 read nothing", (
            Arrive(0, PROMPT[:7]), Admit(0), Prefill(0, 7), Checkpoint(0), *DRAFTED[4:])),
        Case(ReadsOtherValues, "wrong-content", "with another value", READY[:3]),
        Case(ForgetsTheSecondNode, "wrong-content", "the verification of request 0 read nothing at layer 0", (
            *DRAFTED, TargetVerify((0,), (0,)))),
    ],
    "drafts": [
        Case(DraftWritesElsewhere, "wrong-content", "token 0 of request 0, holds the KV of token 1", READY[:3]),
    ],
    "window": [
        Case(KeepsTheWindow, "leak", "has SWA slot", LONG),
    ],
}  # fmt: skip
"""Check -> what fires it."""

EACH = [pytest.param(check, case, id=f"{check}: {case.what}") for check, cases in CASES.items() for case in cases]


def tape(case: Case) -> Tape:
    return Tape(replace(CONFIG, **dict(case.changes)), case.events)


@pytest.mark.parametrize(("check", "case"), EACH)
def test_a_misbehaving_target_fires_its_check(check: str, case: Case) -> None:
    """The class, the check and the fact are those of the misbehaviour, at the event at which it happened."""
    divergence = drive_engine(tape(case), case.target()).divergence
    assert divergence is not None
    assert (divergence.kind, divergence.check) == (case.kind, check), divergence.what
    assert case.what in divergence.what
    assert divergence.event == len(case.events) - 1


@pytest.mark.parametrize(("check", "case"), EACH)
def test_no_check_fires_on_correct_code(check: str, case: Case) -> None:
    """The same tape on the target as it is."""
    verdict = drive_engine(tape(case), BuiltinEngine())
    assert verdict.divergence is None
    assert verdict.skipped == 0


def test_every_check_fires_here_or_at_the_engine_level() -> None:
    """A check that nothing fires could be dropped unseen."""
    own = [check.name for check in SPECULATIVE.checks]
    assert sorted(own) == sorted(CASES)

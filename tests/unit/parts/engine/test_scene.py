"""The state in a report: short whatever the engine holds, with a mark where they part, and no error of its own."""

from __future__ import annotations

from dataclasses import replace

import pytest

from staleloc.models.config import Config
from staleloc.sim.core.divergence import Divergence
from staleloc.sim.core.event import Event
from staleloc.sim.core.tape import Tape
from staleloc.sim.parts import session
from staleloc.sim.parts.drive import drive_engine
from staleloc.sim.parts.engine.events import Abort, Admit, Arrive, Checkpoint, Evict, Prefill
from staleloc.sim.parts.engine.scene import MAX_LINES
from staleloc.sim.run.messages import divergence_from_json, divergence_to_json
from staleloc.sim.targets.base import FreeSlots
from staleloc.sim.targets.builtin import BuiltinEngine

CONFIG = Config(level="engine", policy="uncached", full_size=64, swa_size=64, window=2)


def serve(request: int, tokens: tuple[int, ...]) -> tuple[Event, ...]:
    return Arrive(request, tokens), Admit(request), Prefill(request, len(tokens)), Checkpoint(request)


class Listed(BuiltinEngine):
    """Says, from its first eviction on, that one page more is free than there is."""

    page = 45
    lies = False

    def evict(self, full: int, swa: int) -> None:
        """Evict, and start to lie."""
        super().evict(full, swa)
        self.lies = True

    def raw_free(self) -> FreeSlots:
        """The free lists with it."""
        free = super().raw_free()
        return replace(free, full=[*free.full, self.page]) if self.lies else free


def diverged(*events: Event, page: int) -> Divergence:
    listed = Listed()
    listed.page = page
    divergence = drive_engine(Tape(CONFIG, (*events, Evict(0, 0))), listed).divergence
    assert divergence is not None
    assert (divergence.check, divergence.event) == ("owners", len(events))
    return divergence


def lines(*events: Event, page: int) -> tuple[str, ...]:
    return diverged(*events, page=page).state


def test_a_mark_stands_under_the_slot() -> None:
    """Also where a row is too long to be shown as a whole."""
    shown = lines(*serve(0, (1,) * 50), page=45)
    row = next(line for line in shown if "full locs" in line)
    mark = next(line for line in shown if "^" in line)
    assert row[mark.index("^") - 1 :].startswith("45")
    assert "... " in row
    assert max(map(len, shown)) <= 116


def test_who_has_the_slot_is_said_and_shown_first() -> None:
    """With the count of a list that has it twice."""
    events = (*serve(0, (1,) * 4), *serve(1, (2,) * 4), *serve(2, (3, 3)))
    assert "  full slot 6: the free list, node 2, request 1" in lines(*events, page=6)
    assert next(line for line in lines(*events, page=6) if ">" in line).startswith("  > node 2: ")
    assert "  full slot 60: the free list 2 times" in lines(*events, page=60)


def test_a_large_state_is_cut() -> None:
    """What is left out is named."""
    shown = lines(*(event for request in range(12) for event in serve(request, (request + 1, 1, 1))), page=3)
    assert len(shown) <= MAX_LINES
    assert shown[-1].startswith("    not shown: ")
    assert shown[-1].endswith(" more")


def test_a_request_without_locs_has_no_rows() -> None:
    """It has not computed anything yet."""
    shown = lines(*serve(0, (1,) * 4), Abort(0), Arrive(1, (5, 5)), Admit(1), page=60)
    assert "    request 1: no locs yet" in shown


def test_it_does_not_tell_divergences_apart() -> None:
    """And crosses the line between processes."""
    divergence = diverged(*serve(0, (1,) * 4), page=1)
    assert divergence.state
    assert divergence == replace(divergence, state=())
    assert divergence_from_json(divergence_to_json(divergence)).state == divergence.state


def test_a_state_that_cannot_be_looked_at_is_no_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    """The divergence that was seen stays what it is."""

    def broken(*_: object) -> None:
        raise LookupError("no such node")

    monkeypatch.setattr(session, "scene", broken)
    assert lines(*serve(0, (1,) * 4), page=1) == ()

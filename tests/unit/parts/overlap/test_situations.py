"""What tapes of two batches in flight reach, and which caches there are."""

from __future__ import annotations

from collections import Counter

import pytest

from staleloc.models.config import Config, ConfigError
from staleloc.models.situations import OVERLAP_SITUATIONS
from staleloc.sim.core.choices import seeded
from staleloc.sim.core.event import Event
from staleloc.sim.core.tape import Tape
from staleloc.sim.parts.drive import drive_engine
from staleloc.sim.parts.engine.events import Abort
from staleloc.sim.parts.generate import generate_tape
from staleloc.sim.parts.overlap.events import Launch, Process
from staleloc.sim.parts.scheduler.events import Submit
from staleloc.sim.parts.situations import possible
from staleloc.sim.targets.base import Scope
from staleloc.sim.targets.builtin import BuiltinEngine

PROFILES = Scope("engine", ("scheduler", "overlap"), together=True).of(BuiltinEngine.profiles)

CONFIG = Config(
    level="engine", features=("scheduler", "overlap"), policy="memo", page_size=4, full_size=32, swa_size=32, window=5,
    chunk=8, max_prefill=64, new_token_ratio=0,
)  # fmt: skip

TURN = (Launch(1), Process())
ONE = (Submit(0, (1,) * 4, 3), Launch(1))
TWO = (Submit(0, (1,) * 4, 4), Launch(1), Submit(1, (2,) * 4, 9), *TURN, *TURN)
LONG = (Submit(0, (1,) * 20, 2), Launch(1))
FULL = (Submit(0, (1,) * 12, 15), Submit(1, (2,) * 12, 15), *TURN * 8)

REACHED: dict[str, tuple[Event, ...]] = {
    "stopped_in_flight": (Submit(0, (1,) * 4, 3), Launch(1, (0,)), *TURN),
    "filled_in_flight": (*ONE, *TURN * 3),
    "over_allocated_page": (Submit(0, (1,) * 4, 1), Launch(1), *TURN),
    "aborted_in_flight": (*ONE, Abort(0), *TURN),
    "aborted_chunk_in_flight": (*LONG, Abort(0)),
    "retracted_in_flight": FULL,
    "retracted_aborted": (*FULL[:-2], Abort(1), *FULL[-2:]),
    "result_dropped": (*ONE, *TURN * 4),
    "number_reused": (Submit(0, (1,) * 4, 1), Launch(1), *TURN, Submit(0, (2,) * 4, 1), *TURN),
    "merged_in_flight": TWO,
    "decoded_before_result": (*ONE, *TURN),
    "stored_in_flight": (*LONG, *TURN),
    "prefilled_in_flight": TWO,
    "filtered_in_flight": (*TWO, *TURN * 5),
}
"""Situation -> a tape that comes to it."""


@pytest.mark.parametrize("situation", REACHED)
def test_a_situation_is_counted_where_it_happens(situation: str) -> None:
    """And not one turn before."""
    verdict = drive_engine(Tape(CONFIG, REACHED[situation]), BuiltinEngine())
    assert verdict.divergence is None
    assert verdict.seen[situation] > 0


def test_every_situation_is_reached_here_or_out_of_reach() -> None:
    """A scheduler that leaves nobody out of a decode batch cannot come to the rest."""
    assert set(OVERLAP_SITUATIONS) - set(REACHED) == {"left_out_finishing"}
    assert set(OVERLAP_SITUATIONS) - set(possible(PROFILES)) == {"left_out_finishing"}


@pytest.mark.parametrize("seed", range(5))
def test_a_campaign_ends_aborts_retracts_and_merges_in_flight(seed: int) -> None:
    """Within a few tapes of each seed."""
    wanted = {"filled_in_flight", "stopped_in_flight", "aborted_in_flight", "retracted_in_flight", "merged_in_flight"}
    seen: Counter[str] = Counter()
    for index in range(60):
        verdict = drive_engine(generate_tape(seeded(seed, index), PROFILES), BuiltinEngine())
        assert verdict.divergence is None
        seen.update(verdict.seen)
        if wanted <= set(seen):
            return
    assert wanted <= set(seen)


def test_two_batches_take_a_scheduler() -> None:
    """Nobody else forms batches."""
    with pytest.raises(ConfigError, match="overlap takes a scheduler"):
        Config(level="engine", features=("overlap",)).check()


def test_a_launch_gets_simpler() -> None:
    """It samples a 1, or stops fewer requests."""
    assert list(Launch(2, (0, 1)).simpler()) == [Launch(1, (0, 1)), Launch(2, (1,)), Launch(2, (0,))]

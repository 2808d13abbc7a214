"""Situations of the engine level: each is reached, and counted only when it is what its name says."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from staleloc.models.config import Config
from staleloc.models.situations import ENGINE_SITUATIONS, RESULT_SITUATIONS
from staleloc.sim.core.choices import seeded
from staleloc.sim.core.event import Event
from staleloc.sim.core.tape import Tape
from staleloc.sim.parts.drive import drive_engine
from staleloc.sim.parts.engine.events import (
    Abort,
    Admit,
    Arrive,
    Checkpoint,
    Decode,
    Evict,
    EvictWindow,
    Finish,
    Prefill,
    TransferDone,
)
from staleloc.sim.parts.generate import generate_tape
from staleloc.sim.parts.situations import possible
from staleloc.sim.targets.base import Scope
from staleloc.sim.targets.builtin import BuiltinEngine

PROFILE = Scope("engine").of(BuiltinEngine.profiles)[0]

RARE = {"recovered_in_part", "evicted_in_group"}

HOSTED = Config(level="engine", policy="memo", full_size=12, swa_size=12, window=2, host_full_size=12, host_swa_size=12)
BARE = replace(HOSTED, host_full_size=0, host_swa_size=0)


def seen(config: Config, *events: Event) -> Counter[str]:
    verdict = drive_engine(Tape(config, events), BuiltinEngine())
    assert verdict.divergence is None
    return verdict.seen


def serve(request: int, *tokens: int) -> tuple[Event, ...]:
    return Arrive(request, tokens), Admit(request), Prefill(request, len(tokens)), Checkpoint(request)


SERVED = (*serve(0, 1, 1, 1, 1), Finish(0))
OFFLOADED = (*SERVED, TransferDone(1))
AGAIN = (Arrive(1, (1, 1, 1, 1, 2)), Admit(1))


def test_a_campaign_reaches_every_situation_but_the_rarest() -> None:
    """Within a few hundred tapes, and until then it counts no others."""
    known = {*ENGINE_SITUATIONS, *RESULT_SITUATIONS}
    counted: Counter[str] = Counter()
    for index in range(250):
        counted.update(drive_engine(generate_tape(seeded(3, index), [PROFILE]), BuiltinEngine()).seen)
        if known - RARE <= set(counted):
            break
    assert set(counted) | RARE == known


def test_a_prefix_served_from_the_host_is_no_recovery() -> None:
    """All of it left the device and came back."""
    counts = seen(HOSTED, *OFFLOADED, Evict(12, 0), *AGAIN)
    assert (counts["host_hit"], counts["node_evicted"], counts["tombstone_recovered"]) == (1, 1, 0)


@pytest.mark.parametrize(("between", "remapped"), [((), 1), (serve(2, 2, 2, 2, 2), 0)])
def test_a_load_back_is_remapped_only_if_its_slots_differ(between: tuple[Event, ...], remapped: int) -> None:
    """Once others have taken the slots never used, a sorting allocator hands out the same ones again."""
    config = replace(HOSTED, full_size=10, swa_size=10, need_sort=True)
    counts = seen(config, *OFFLOADED, Evict(12, 0), *between, *AGAIN)
    assert (counts["host_hit"], counts["remapped_load_back"]) == (1, remapped)


def test_a_tombstone_that_is_loaded_back_is_not_recovered() -> None:
    """Its SWA rows come from the host; a recovery takes them from a request that computed them again."""
    loaded = seen(HOSTED, *OFFLOADED, *serve(1, 1, 1, 1, 1, 2), Abort(1), TransferDone(9), Evict(0, 4), *AGAIN)
    assert (loaded["tombstoned"] > 0, loaded["host_hit"], loaded["tombstone_recovered"]) == (True, 1, 0)


def test_a_recovery_takes_its_rows_from_a_request() -> None:
    """Without a host there is nobody else to have them."""
    inner = (*serve(0, 1, 1, 1, 1), Decode((0,), 1), Decode((0,), 1), EvictWindow(0), Finish(0))
    counts = seen(BARE, *inner, *serve(1, 1, 1, 1, 1, 2), Finish(1), Evict(0, 5), *serve(2, 1, 1, 1, 1, 2), Finish(2))
    assert (counts["tombstone_recovered"] > 0, counts["host_hit"]) == (True, 0)


def test_an_offload_in_flight_is_one_to_the_host() -> None:
    """A load-back in flight is none."""
    assert seen(HOSTED, *serve(0, 1, 1, 1, 1))["offload_in_flight"] > 0
    quiet = seen(HOSTED, *OFFLOADED, Evict(12, 0))["offload_in_flight"]
    assert seen(HOSTED, *OFFLOADED, Evict(12, 0), *AGAIN)["offload_in_flight"] == quiet


def test_a_split_in_which_no_window_begins_is_only_a_split() -> None:
    """The other request's window begins where the node is split, or not in the node at all."""
    inside = seen(BARE, *serve(0, 1, 1, 1, 1), *serve(1, 1, 2))
    assert (inside["node_split"], inside["split_across_window"]) == (1, 1)
    outside = seen(BARE, *serve(0, 1, 1, 1, 1), *(Decode((0,), 2),) * 4, *serve(1, 1, 2))
    assert (outside["node_split"], outside["split_across_window"]) == (1, 0)


def test_what_takes_a_host_tier_is_not_missed_without_one() -> None:
    """A release whose tree has none is not blamed for it."""
    lacking = set(ENGINE_SITUATIONS) - set(possible([replace(PROFILE, host=False)]))
    assert {"host_hit", "partial_mask", "offload_in_flight"} <= lacking
    assert "tombstone_recovered" not in lacking

"""Whatever is taken out of a tape or changed in it, what repair leaves is legal."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from staleloc.models.config import Config
from staleloc.sim.core.choices import seeded
from staleloc.sim.core.event import Event
from staleloc.sim.core.tape import Tape
from staleloc.sim.parts.allocator.generate import generate
from staleloc.sim.parts.legality import find_violation
from staleloc.sim.tapes.reshape import joined, merged, repair, requests_of, scaled, shortened
from staleloc.sim.tapes.shrink import simpler_configs
from staleloc.sim.targets.base import Profile
from staleloc.sim.targets.builtin import BuiltinTarget

RARELY = settings(max_examples=60, deadline=None, derandomize=True, database=None)

PROFILES = {profile.pool: profile for profile in BuiltinTarget.profiles}

tapes = st.integers(0, 5000).map(lambda index: generate(seeded(11, index), BuiltinTarget.profiles))


def repaired(config: Config, events: tuple[Event, ...], profile: Profile) -> tuple[Event, ...]:
    """The repaired events, which are legal and in need of no other repair."""
    kept = repair(config, events, profile)
    assert find_violation(Tape(config, kept), [profile]) == (profile, None)
    assert repair(config, kept, profile) == kept
    return kept


@RARELY
@given(tapes, st.data())
def test_any_deletions_leave_a_legal_tape(tape: Tape, data: st.DataObject) -> None:
    """And never more events than there were."""
    profile = PROFILES[tape.config.pool]
    gone = data.draw(st.sets(st.integers(0, len(tape.events) - 1)))
    events = tuple(event for index, event in enumerate(tape.events) if index not in gone)
    assert len(repaired(tape.config, events, profile)) <= len(events)


@RARELY
@given(tapes, st.randoms(use_true_random=False))
def test_any_order_of_events_leaves_a_legal_tape(tape: Tape, random: object) -> None:
    """Events that come before what they need are clipped or dropped."""
    events = list(tape.events)
    random.shuffle(events)  # type: ignore[attr-defined]
    repaired(tape.config, tuple(events), PROFILES[tape.config.pool])


@RARELY
@given(tapes, st.integers(0))
def test_every_simpler_event_leaves_a_legal_tape(tape: Tape, choice: int) -> None:
    """One event is replaced by each of its simpler versions."""
    index = choice % len(tape.events)
    for simpler in tape.events[index].simpler():
        events = (*tape.events[:index], simpler, *tape.events[index + 1 :])
        repaired(tape.config, events, PROFILES[tape.config.pool])


@RARELY
@given(tapes)
def test_every_simpler_cache_leaves_a_legal_tape(tape: Tape) -> None:
    """The events go on in a smaller pool, with fewer layers, with smaller pages."""
    profile = PROFILES[tape.config.pool]
    for config in simpler_configs(tape.config):
        if config.possible:
            events = scaled(tape.events, tape.config.page_size, config.page_size)
            repaired(config, events, profile)
            repaired(config, tape.events, profile)


@RARELY
@given(tapes)
def test_every_reshaped_tape_is_legal_after_repair(tape: Tape) -> None:
    """Merged allocations, joined requests, and requests that lost their first tokens."""
    profile = PROFILES[tape.config.pool]
    candidates = [*list(merged(tape.events))[:8], *list(joined(tape.events))[:8]]
    candidates += [shortened(tape.events, request, tape.config.page_size) for request in requests_of(tape.events)]
    for events in candidates:
        repaired(tape.config, events, profile)


@RARELY
@given(tapes)
def test_a_tape_for_one_pool_can_be_repaired_for_the_other(tape: Tape) -> None:
    """Events that the other pool does not have are dropped, and what depended on them is repaired."""
    pool = "dsv4" if tape.config.pool == "hybrid" else "hybrid"
    profile = PROFILES[pool]
    config = replace(tape.config, pool=pool, policy=profile.policies[0])
    events = repaired(config, tape.events, profile)
    assert {event.kind for event in events} <= profile.events

"""What tapes of speculative decode reach, and how they get simpler."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from staleloc.models.config import Config
from staleloc.models.situations import ENGINE_SITUATIONS, SPEC_SITUATIONS
from staleloc.sim.core.choices import seeded
from staleloc.sim.core.event import Event
from staleloc.sim.parts.drive import drive_engine
from staleloc.sim.parts.generate import generate_tape
from staleloc.sim.parts.situations import possible
from staleloc.sim.parts.speculative.events import Commit, DraftTree, PrepareDecode, TargetVerify
from staleloc.sim.tapes.shrink import cost, simpler_configs
from staleloc.sim.targets.builtin import BuiltinEngine

PROFILE = next(profile for profile in BuiltinEngine.profiles if profile.features == ("spec",))

OF_V2 = {
    *("prepared_after_commit", "prepared_before_commit", "verified_before_commit", "window_evicted_uncommitted"),
    *("surplus_at_finish", "surplus_at_abort", "left_uncommitted"),
}


RARE = {"loaded_between"}


def test_a_campaign_reaches_every_situation_but_the_rarest() -> None:
    """Within a few dozen tapes."""
    counted: Counter[str] = Counter()
    for index in range(70):
        counted.update(drive_engine(generate_tape(seeded(3, index), [PROFILE]), BuiltinEngine()).seen)
        if set(SPEC_SITUATIONS) - RARE <= set(counted):
            break
    assert set(SPEC_SITUATIONS) - RARE <= set(counted)
    assert set(counted) <= set(possible([PROFILE]))


def test_the_same_seed_gives_the_same_tape() -> None:
    """Nothing else is drawn from, and every cache that is drawn can be."""
    tapes = [[generate_tape(seeded(5, index), [PROFILE]) for index in range(20)] for _ in range(2)]
    assert tapes[0] == tapes[1]
    assert len(set(tapes[0])) == 20
    for tape in tapes[0]:
        tape.config.check()


def test_what_a_target_cannot_reach() -> None:
    """A release has one version, or pages of one token, or no window eviction but in preparations."""
    every = set(possible([PROFILE]))
    assert every >= set(SPEC_SITUATIONS)
    assert every - set(possible([replace(PROFILE, spec_versions=("v1",))])) == OF_V2
    assert every - set(possible([replace(PROFILE, spec_versions=("v2",))])) == {"draft_slots_reused"}
    assert every - set(possible([replace(PROFILE, page_sizes=(1,))])) == {
        *("page_copied", "accepted_across_pages", "rejected_in_page", "page_short_of_keys"),
    }
    assert every - set(possible([replace(PROFILE, events=PROFILE.events - {"evict_window"})])) == {"recovered_in_part"}
    lost = every - set(possible([replace(PROFILE, host=False)]))
    assert {"host_hit", "loaded_between"} <= lost <= {*ENGINE_SITUATIONS, "loaded_between"}


def test_a_tape_has_no_event_that_its_profile_lacks() -> None:
    """Window eviction between steps is not for every target."""
    bare = replace(PROFILE, events=PROFILE.events - {"evict_window"})
    for index in range(20):
        tape = generate_tape(seeded(6, index), [bare])
        assert {event.kind for event in tape.events} <= bare.events


@pytest.mark.parametrize(
    "event",
    [
        PrepareDecode((0, 1)),
        DraftTree((0, 1), (2, 1, 3), (0, 1)),
        TargetVerify((0, 1, 2), (0, 3, 1)),
        TargetVerify((0, 1, 2), (3,)),
        Commit((0, 1)),
    ],
    ids=str,
)
def test_simpler_events_are_simpler(event: Event) -> None:
    """None costs more or is of another kind, and one costs less."""
    config = Config()
    simpler = list(event.simpler())
    assert simpler
    for other in simpler:
        assert type(other) is type(event)
        assert cost(config, (other,)) <= cost(config, (event,))
    assert min(cost(config, (other,)) for other in simpler) < cost(config, (event,))


def test_simpler_caches_can_be() -> None:
    """A draft shrinks to a chain of one token without bigrams, and no candidate breaks a rule on the way."""
    tape = next(it for it in (generate_tape(seeded(7, i), [PROFILE]) for i in range(99)) if it.config.spec_topk == 3)
    config = replace(tape.config, bigram=True)
    seen = set()
    while config not in seen:
        seen.add(config)
        candidates = [it for it in simpler_configs(config) if it.possible and cost(it, ()) < cost(config, ())]
        drafts = [it for it in candidates if it.full_size == config.full_size and it.swa_size == config.swa_size]
        config = min(drafts, key=lambda it: cost(it, ()), default=config)
    assert (config.spec_steps, config.spec_topk, config.spec_draft_tokens, config.bigram) == (1, 1, 2, False)

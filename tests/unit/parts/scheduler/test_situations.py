"""What tapes of a scheduler reach, which caches are drawn for them, and how those get simpler."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from staleloc.models.config import Config, ConfigError
from staleloc.models.situations import SCHEDULER_SITUATIONS
from staleloc.sim.core.choices import seeded
from staleloc.sim.parts.drive import drive_engine
from staleloc.sim.parts.generate import generate_tape
from staleloc.sim.parts.scheduler.events import Submit
from staleloc.sim.parts.scheduler.situations import HOSTED
from staleloc.sim.parts.situations import possible
from staleloc.sim.tapes.shrink import cost, simpler_configs
from staleloc.sim.targets.builtin import BuiltinEngine

PROFILE = next(profile for profile in BuiltinEngine.profiles if profile.features == ("scheduler",))

RARE = {
    "freed_beside_flight",
    "remapped_load_back",
    "retried",
    "deduplicated",
    "host_hit",
    "host_evicted",
    "partial_mask",
}


def test_a_campaign_reaches_every_situation_but_the_rarest() -> None:
    """Within a few dozen tapes."""
    counted: Counter[str] = Counter()
    for index in range(80):
        counted.update(drive_engine(generate_tape(seeded(4, index), [PROFILE]), BuiltinEngine()).seen)
    assert set(SCHEDULER_SITUATIONS) - RARE - {"outgrown"} <= set(counted)
    assert set(counted) <= set(possible([PROFILE]))


def test_the_same_seed_gives_the_same_tape() -> None:
    """Nothing else is drawn from, and every cache that is drawn can be."""
    tapes = [[generate_tape(seeded(5, index), [PROFILE]) for index in range(20)] for _ in range(2)]
    assert tapes[0] == tapes[1]
    assert len(set(tapes[0])) == 20
    for tape in tapes[0]:
        tape.config.check()


def test_caches_differ_in_what_admission_depends_on() -> None:
    """Chunks or none, a prefix cache or none, windows shorter than a page and longer, whole pages of it or not."""
    configs = [generate_tape(seeded(6, index), [PROFILE]).config for index in range(120)]
    assert {bool(config.chunk) for config in configs} == {True, False}
    assert {config.prefix_cache for config in configs} == {True, False}
    assert {config.window > config.page_size for config in configs} == {True, False}
    assert {config.window % config.page_size == 0 for config in configs if config.page_size > 1} == {True, False}
    least = [config for config in configs if config.swa_size < 2 * config.window + 2 * config.page_size]
    assert len(least) > 10


def test_what_a_target_cannot_reach() -> None:
    """Without a host tier nothing is loaded back."""
    every = set(possible([PROFILE]))
    assert every - set(possible([replace(PROFILE, host=False)])) == HOSTED
    assert set(SCHEDULER_SITUATIONS) - every == {"outgrown"}


def test_fields_of_a_scheduler_belong_to_no_other_cache() -> None:
    """Old tapes do not have them, and a cache without a scheduler takes none."""
    for field, value in (("chunk", 4), ("max_prefill", 4), ("prefix_cache", False), ("new_token_ratio", 1)):
        with pytest.raises(ConfigError, match="are of a scheduler"):
            Config(level="engine", **{field: value}).check()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"chunk": 6}, "chunk must be 0 or a multiple of page_size 4"),
        ({"max_prefill": 0}, "max_prefill must be 1 to"),
        ({"new_token_ratio": 101}, "new_token_ratio must be 0 to 100"),
        ({"swa_size": 8}, "two windows and a page, 20"),
        ({"prefix_cache": False, "host_full_size": 4, "host_swa_size": 4}, "a host tier takes a prefix tree"),
    ],
)
def test_a_cache_that_no_server_has_is_refused(change: dict[str, int], words: str) -> None:
    """With one line that names the rule."""
    plain = Config(
        level="engine", features=("scheduler",), page_size=4, full_size=32, swa_size=20, window=9, max_prefill=32
    )
    plain.check()
    with pytest.raises(ConfigError, match=words):
        replace(plain, **change).check()  # type: ignore[arg-type]


def test_simpler_caches_are_simpler() -> None:
    """A shrink never goes back."""
    tape = generate_tape(seeded(7, 1), [PROFILE])
    config = replace(tape.config, chunk=4 * tape.config.page_size)
    simpler = [it for it in simpler_configs(config) if it.possible]
    assert any(it.chunk < config.chunk for it in simpler)
    assert all(cost(it, ()) <= cost(config, ()) for it in simpler)


def test_a_request_gets_simpler() -> None:
    """Shorter, wanting less, or of ones."""
    simpler = list(Submit(0, (2, 1, 2, 1), 9).simpler())
    assert {len(it.arguments()["tokens"]) for it in simpler} == {2, 3, 4}
    assert {it.arguments()["most"] for it in simpler} == {1, 4, 8, 9}

"""Pinned fields of a config: every tape has them, and what depends on them is drawn to fit."""

from __future__ import annotations

from dataclasses import replace

import pytest

from staleloc.sim.core.choices import seeded
from staleloc.sim.parts.generate import generate_tape, scopes_of, undrawable
from staleloc.sim.parts.legality import unfit
from staleloc.sim.parts.pins import reach
from staleloc.sim.targets.base import HOST, Scope
from staleloc.sim.targets.builtin import BuiltinEngine
from staleloc.sim.targets.pins import PinError, no_scope, read_pins, refusal

ALL = BuiltinEngine.profiles
SCOPES = scopes_of(ALL)
SERVER = "page_size=64,window=128,host=on,write_policy=write_through"

EVERYWHERE = [
    "page_size=1",
    "page_size=4,window=9",
    "full_size=64,swa_size=32",
    "layers=swa+full",
    "need_sort=on",
    "page_size=16,window=1024",
    "full_size=16",
    "swa_size=128,page_size=4",
]
"""Pins that go with every level and every feature."""

SOMEWHERE = [
    SERVER,
    "page_size=64,window=128,context_len=300,host=off",
    "host_full_size=64",
    "write_policy=write-back",
    "context=40",
    "spec_version=v2,spec_steps=3",
    "spec_topk=3,spec_draft_tokens=8",
    "draft_tokens=5,topk=1",
    "topk=8,steps=5,draft_tokens=16,page_size=1",
    "bigram=on,host=on",
    "tree=on,reserved_decode=3",
    "tree=off",
    "chunk=64,max_prefill=32,new_token_ratio=70",
    "prefix_cache=on,page_size=64,window=128",
]


def drawn(scope: Scope, count: int) -> list[object]:
    """The pinned values, and the fit, of some tapes."""
    profiles = scope.of(ALL)
    found: list[object] = []
    for index in range(count):
        config = generate_tape(seeded(5, index), profiles).config
        config.check()
        assert any(unfit(config, it) is None for it in profiles if it.features == config.features)
        had = {name: config.host_full_size > 0 if name == HOST else getattr(config, name) for name, _ in scope.pins}
        found.append(had == dict(scope.pins))
    return found


@pytest.mark.parametrize("text", EVERYWHERE)
def test_every_level_and_combination_takes_pins(text: str) -> None:
    """Whatever writes the tape, it has the pinned values, keeps the rules of a config and fits the target."""
    assert len(scopes := scopes_of(ALL, read_pins(text))) == len(SCOPES)
    assert all(all(drawn(scope, 5)) for scope in scopes)


@pytest.mark.parametrize("text", SOMEWHERE)
def test_pins_leave_out_levels_that_cannot_have_them(text: str) -> None:
    """A scope either has the values in every tape, or is not among those that are played."""
    scopes = scopes_of(ALL, read_pins(text))
    assert 0 < len(scopes) < len(SCOPES)
    assert all(all(drawn(scope, 5)) for scope in scopes)


def test_a_host_tier_is_implied() -> None:
    """A write policy or host pools without a host tier would say nothing."""
    assert dict(read_pins("write_policy=write_back"))[HOST] is True
    assert dict(read_pins("host_swa_size=8"))[HOST] is True


def test_requests_can_leave_a_pinned_window_behind() -> None:
    """At page 64 and window 128, contexts and pools are large enough that a window is evicted."""
    (profile,) = Scope("engine", ("spec",), pins=read_pins(SERVER)).of(ALL)
    configs = [generate_tape(seeded(0, index), [profile]).config for index in range(20)]
    assert all(it.context_len >= reach(profile, 64, 128) == 256 for it in configs)
    assert all(it.full_size > it.context_len - 64 for it in configs)
    assert reach(replace(profile, pins={}), 64, 128) == 0


def test_pins_change_only_what_they_name() -> None:
    """Draws are made whether or not they are pinned, so a tape of the same seed stays alike."""
    plain, pinned = (
        [generate_tape(seeded(1, index), Scope("engine", pins=pins).of(ALL)) for index in range(8)]
        for pins in ((), read_pins("need_sort=on"))
    )
    assert [replace(it.config, need_sort=True) for it in plain] == [it.config for it in pinned]
    assert [it.events for it in plain] == [it.events for it in pinned]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("window", "'window' is not NAME=VALUE, as in page_size=64,window=128,host=on"),
        ("windows=4", "a config has no field 'windows'; did you mean window?"),
        ("level=engine", "level has an option of its own: --level"),
        ("host=maybe", "host is on or off, not 'maybe'"),
        ("window=1e3", "window is a whole number up to 1048576, not '1e3'"),
        ("window=4,window=5", "window is given twice; give it one value"),
        ("write_policy=lazy", "write_policy is one of write_through, write_back, not 'lazy'"),
        ("layers=full+mamba", "layers is full and swa joined by +, as in full+swa+swa, not 'full+mamba'"),
        ("host=off,write_policy=write_back", "write_policy is a field of a host tier; leave out host=off or "
         "write_policy"),
        ("host_full_size=0", "a host tier has slots of both kinds; to have none, give host=off"),
    ],
)  # fmt: skip
def test_a_pin_that_cannot_be_read(text: str, told: str) -> None:
    """One line says what is allowed."""
    with pytest.raises(PinError) as error:
        read_pins(text)
    assert str(error.value) == told


@pytest.mark.parametrize(
    ("features", "text", "told"),
    [
        ((), "page_size=7", "page_size=7: it is one of 1, 2, 4, 8, 16, 32, 64, 128, 256"),
        ((), "policy=lru", "policy=lru: it is one of uncached, memo"),
        ((), "topk=2", "spec_topk=2: it is a field of speculative decode; add --features spec"),
        ((), "full_size=10,page_size=4", "together; full_size must be a multiple of page_size 4"),
        ((), "full_size=4,swa_size=8", "no config at the engine level has full_size=4,swa_size=8: swa_size must not "
         "exceed full_size: each SWA slot belongs to a full loc; change or leave out one of them"),
        (("disagg",), "host=on", "host=on: it is off here"),
        (("spec",), "topk=2,steps=2,draft_tokens=9", "spec_draft_tokens must be 2 to 5"),
        (("scheduler",), "window=64,swa_size=64", "a scheduler takes swa_size for two windows and a page"),
    ],
)  # fmt: skip
def test_a_pin_that_a_target_cannot_have(features: tuple[str, ...], text: str, told: str) -> None:
    """One line says what is allowed there, also where only the rules of a config forbid it."""
    reason = undrawable("builtin", Scope("engine", features, pins=read_pins(text)), ALL)
    assert reason is not None
    assert told in reason
    assert "\n" not in reason


def test_pins_that_no_level_has() -> None:
    """A field of whole requests is refused at the allocator level, and a page size that nothing takes everywhere."""
    pins = read_pins("host=on")
    assert refusal("builtin", Scope(pins=pins), ALL) == (
        "builtin at the allocator level has no host=on: it is a field of whole requests; add --level engine"
    )
    assert no_scope("builtin", read_pins("page_size=3"), ALL).startswith(
        "builtin has no page_size=3: it is one of 1, 2,"
    )


def test_pins_are_a_part_of_the_scope() -> None:
    """A worker gets them, and the command line that plays a tape again has them."""
    scope = Scope("engine", ("spec",), pins=read_pins(f"layers=full+swa,{SERVER}"))
    assert Scope.from_json(scope.to_json()) == scope
    assert scope.options[-2:] == [
        "--config", "page_size=64,layers=full+swa,window=128,write_policy=write_through,host=on",
    ]  # fmt: skip
    assert read_pins(scope.options[-1]) == scope.pins
    assert Scope(pins=read_pins("window=4")).options == ["--config", "window=4"]

"""Each scenario diverges on the releases it names and is silent on those that have the fix."""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import files

import pytest
from packaging.version import Version
from plain_run import LONG

from staleloc.sim.core.divergence import CLASSES
from staleloc.sim.core.tape import Tape
from staleloc.sim.run.player import Player, adapt
from staleloc.sim.tapes.codec import loads
from staleloc.sim.tapes.scenarios import Scenario, scenarios
from staleloc.sim.targets.sglang.fetch import Release

TIMES = 20 if LONG else 4

SCENARIOS: dict[str, Tape] = {
    entry.name.removesuffix(".json"): loads(entry.read_text(encoding="utf-8"), entry.name)
    for entry in sorted(files("staleloc.scenarios").iterdir(), key=lambda entry: entry.name)
    if entry.name.endswith(".json")
}


def told(name: str, what: str) -> list[str]:
    """A list in a scenario's provenance."""
    provenance = SCENARIOS[name].provenance
    assert provenance is not None
    value = provenance[what]
    assert isinstance(value, list)
    return value


TARGETS = sorted({target for name in SCENARIOS for target in told(name, "diverges") + told(name, "silent")})


@pytest.mark.parametrize("target", TARGETS)
def test_scenarios_tell_buggy_releases_from_fixed_ones(target: str, available: Callable[[str], Release]) -> None:
    """On each target, every scenario that names it gives the verdict it says, each time it is played.

    Four times, or twenty with STALELOC_LONG=1.
    """
    if target != "builtin":
        available(target)
    with Player(target) as player:
        for name, tape in SCENARIOS.items():
            if target not in told(name, "diverges") + told(name, "silent"):
                continue
            played, _ = adapt(tape, player.profiles)
            verdicts = {player.play(played) for _ in range(TIMES)}
            assert len(verdicts) == 1, name
            verdict = verdicts.pop()
            found = None if verdict is None else verdict.kind
            assert tape.provenance is not None
            assert found == (tape.provenance["class"] if target in told(name, "diverges") else None), name


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_says_what_it_is(name: str) -> None:
    """A scenario names its incident, source, family, mechanism, class, and a target on which it diverges."""
    provenance = SCENARIOS[name].provenance
    assert provenance is not None
    assert set(provenance) - {"shows", "said", "also", "remark"} == {
        "incident", "source", "family", "mechanism", "class", "diverges", "silent", "target",
    }  # fmt: skip
    assert provenance["target"] in told(name, "diverges")
    assert told(name, "silent")


@pytest.mark.parametrize("scenario", scenarios(), ids=lambda scenario: scenario.name)
def test_a_scenario_knows_the_public_record(scenario: Scenario) -> None:
    """Which releases are said to have the bug, or that nobody reported it; as what else it shows is another class."""
    assert (scenario.said is None) == scenario.incident.startswith(("found by fuzzing", "possible since"))
    if scenario.said is not None:
        since, fixed = scenario.said.since, scenario.said.fixed
        assert since is None or fixed is None or Version(since) < Version(fixed)
    assert all(Version(version) and why for version, why in scenario.remark.items())
    assert scenario.kind not in scenario.also
    assert set(scenario.also) <= set(CLASSES)

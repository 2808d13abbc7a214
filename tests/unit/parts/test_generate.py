"""Who writes the tapes of which parts, and with which events."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from staleloc.sim.core.choices import seeded
from staleloc.sim.parts import generate
from staleloc.sim.parts.author import TapeAuthor
from staleloc.sim.parts.engine.events import EngineEvent
from staleloc.sim.parts.registry import PARTS, parts_of_profile
from staleloc.sim.targets.base import Profile
from staleloc.sim.targets.builtin import BuiltinEngine

WAYS = [profile for profile in BuiltinEngine.profiles if profile.level == "engine"]


def test_an_author_is_of_a_part() -> None:
    """A misspelt name would leave a part to the author of the others."""
    assert set(generate._authors()) <= {part.name for part in PARTS}


@dataclass(frozen=True)
class Ping(EngineEvent):
    """An event of a part that has no author."""

    kind = "ping"
    weight = 20

    @classmethod
    def draw(cls, author: TapeAuthor) -> EngineEvent:
        return cls()


@pytest.mark.parametrize("way", WAYS, ids=lambda way: "+".join(way.asks) or "plain")
def test_an_event_of_any_part_is_drawn(way: Profile, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its weight, whoever writes the tape, and only where the target can execute it."""
    requests, *others = parts_of_profile(way)
    monkeypatch.setattr(
        generate, "parts_of_profile", lambda _: (replace(requests, events=(*requests.events, Ping)), *others)
    )
    able = replace(way, events=way.events | {Ping.kind})
    kinds = [
        {event.kind for index in range(6) for event in generate.generate_tape(seeded(1, index), [it]).events}
        for it in (way, able)
    ]
    assert [Ping.kind in them for them in kinds] == [False, True]

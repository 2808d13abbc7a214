"""Every oracle of the engine level, fired by a mutant on a short tape, and quiet on it without the mutant.

A tape of `tapes/` says in its provenance which mutant it shows, and as what. Each is what a campaign found,
shrunk.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from staleloc.models.config import SWA, Config
from staleloc.models.engine import EngineWorld
from staleloc.sim.core.divergence import LocRow
from staleloc.sim.core.tape import Tape
from staleloc.sim.parts.allocator.events import Clear
from staleloc.sim.parts.drive import drive_engine
from staleloc.sim.parts.engine.step import EngineStep
from staleloc.sim.parts.legality import find_violation
from staleloc.sim.parts.registry import parts_of
from staleloc.sim.tapes.codec import dumps, load, loads
from staleloc.sim.targets.builtin import BuiltinEngine
from staleloc.sim.targets.mutants import MUTANTS
from staleloc.sim.targets.mutants.transform import load_builtin

TAPES: dict[str, Tape] = {path.stem: load(path) for path in sorted((Path(__file__).parent / "tapes").glob("*.json"))}

CONFIG = Config("hybrid", "uncached", 1, 3, 3, (SWA,))

RULES = {
    "overflow": {"out-of-bounds"},
    "structure": {"misaligned"},
    "admission": {"out-of-bounds", "misaligned"},
    "owners": {"out-of-bounds", "alias", "double-free", "use-after-free", "race", "leak"},
    "races": {"race"},
    "values": {"stale-translation", "wrong-mapping"},
    "graphs": {"graph-pollution", "stale-translation", "wrong-content"},
    "rows": {"wrong-content", "stale-translation"},
    "locks": {"use-after-free", "leak"},
    "ledgers": {"leak", "over-admission"},
    "refusal": {"leak"},
    "eviction": {"leak"},
    "sanity": {"leak"},
    "hits": {"lost-hit"},
}
"""Check -> the classes that it reports."""

BY_HAND = {("admission", "misaligned"), ("sanity", "leak")}
"""What no mutant's tape shows; `test_states` and `test_tree_checks` do. The embedded target has no check of its own."""


def provenance(tape: Tape) -> dict[str, Any]:
    assert tape.provenance is not None
    return dict(tape.provenance)


@pytest.mark.parametrize("name", TAPES)
def test_a_mutant_fires_the_check(name: str) -> None:
    """With the class that tells what is wrong, and at the tape's last event."""
    tape = TAPES[name]
    wanted = provenance(tape)
    divergence = drive_engine(tape, load_builtin(MUTANTS[wanted["mutant"]])).divergence
    assert divergence is not None
    assert (divergence.kind, divergence.check, divergence.what) == (wanted["class"], wanted["check"], wanted["what"])
    assert divergence.event == len(tape.events) - 1


@pytest.mark.parametrize("name", TAPES)
def test_correct_code_keeps_it_quiet(name: str) -> None:
    """On the same tape, which is a legal one."""
    target = BuiltinEngine()
    assert find_violation(TAPES[name], target.profiles)[1] is None
    verdict = drive_engine(TAPES[name], target)
    assert verdict.divergence is None
    assert verdict.events == len(TAPES[name].events)


def test_hits_are_checked_only_where_a_tape_asks_for_it() -> None:
    """A prefix that is computed again is no wrong answer."""
    tape = TAPES["hits-lost-hit-match-stops-page-early"]
    silent = replace(tape, config=replace(tape.config, checks=()))
    assert drive_engine(silent, load_builtin(MUTANTS["match-stops-page-early"])).divergence is None
    assert loads(dumps(tape)).config.checks == ("hits",)
    assert '"checks"' not in dumps(silent)


def test_every_class_of_every_check_is_shown() -> None:
    """A check or a class without a tape would be one that nobody has seen fire."""
    shown: dict[str, set[str]] = {}
    for tape in TAPES.values():
        shown.setdefault(provenance(tape)["check"], set()).add(provenance(tape)["class"])
    for check, kind in BY_HAND:
        assert kind not in shown.get(check, ())
        shown.setdefault(check, set()).add(kind)
    assert shown == RULES
    assert set(RULES) == {
        check.name
        for part in parts_of(Config(level="engine", features=("graphs",), host_full_size=1, host_swa_size=1))
        for check in part.checks
    }


def test_a_stale_answer_says_which_event_changed_the_mapping_from_it() -> None:
    """By the table as it was read after each event; not of an answer that was never right, or that there is no slot."""
    world = EngineWorld(CONFIG)
    for event, table in ((0, [0, 0, 5, 0]), (2, [0, 0, 5, 0]), (3, [0, 0, 0, 0])):
        world.mapping.follow(event, table)
    step = EngineStep(6, Clear(), world, cast(Any, SimpleNamespace(raw_mapping=lambda: [0, 0, 7, 0])))
    rows = [LocRow(2, 7, 5), LocRow(1, 0, 4), LocRow(2, 7, 0), LocRow(2, 7, None)]
    found = step.diverges("stale-translation", "it", rows=rows)
    assert [row.stale_at for row in found.rows] == [3, None, None, None]
    assert step.diverges("wrong-content", "it", rows=rows).stale_at is None
    assert world.mapping.changed_from(2, 0) == 6

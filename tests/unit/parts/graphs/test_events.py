"""Events of captured graphs: when they apply, what they come to, and the situations that they reach."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from staleloc.models.config import Config
from staleloc.models.situations import GRAPH_SITUATIONS
from staleloc.sim.core.choices import seeded
from staleloc.sim.core.divergence import Divergence
from staleloc.sim.core.event import Event
from staleloc.sim.core.tape import Tape
from staleloc.sim.findings.explain import fact, sentence
from staleloc.sim.parts.drive import drive_engine, play_tape
from staleloc.sim.parts.engine import events as ee
from staleloc.sim.parts.generate import generate_tape
from staleloc.sim.parts.graphs.events import Capture, Draft, Replay, ReplayChunk, Verify
from staleloc.sim.parts.situations import possible
from staleloc.sim.tapes.codec import dumps, loads
from staleloc.sim.targets.base import Scope
from staleloc.sim.targets.builtin import BuiltinEngine
from staleloc.sim.targets.mutants import MUTANTS
from staleloc.sim.targets.mutants.transform import load_builtin

PROFILES = Scope("engine", ("graphs",)).of(BuiltinEngine.profiles)

CONFIG = Config(
    level="engine", features=("graphs",), policy="memo", full_size=16, swa_size=16, window=8, layers=("full", "swa")
)


def seen(*events: Event, config: Config = CONFIG) -> Counter[str]:
    verdict = drive_engine(Tape(config, events), BuiltinEngine())
    assert verdict.divergence is None
    return verdict.seen


def served(request: int, *tokens: int) -> tuple[Event, ...]:
    return (
        ee.Arrive(request, tokens), ee.Admit(request), ee.Prefill(request, len(tokens)), ee.Checkpoint(request)
    )  # fmt: skip


def found(mutant: str, *events: Event, config: Config = CONFIG) -> Divergence:
    divergence = drive_engine(Tape(config, events), load_builtin(MUTANTS[mutant])).divergence
    assert divergence is not None
    assert drive_engine(Tape(config, events), BuiltinEngine()).divergence is None
    return divergence


RARE = {"load_back_before_verify"}
"""What one tape of several hundred reaches."""


def test_a_campaign_reaches_every_situation_but_the_rarest() -> None:
    """Within a few hundred tapes."""
    missing = set(GRAPH_SITUATIONS) - RARE
    for index in range(300):
        missing -= set(play_tape(generate_tape(seeded(1, index), PROFILES), BuiltinEngine(), PROFILES[0]).seen)
        if not missing:
            break
    assert not missing
    assert set(GRAPH_SITUATIONS) <= set(possible(PROFILES))
    assert not set(GRAPH_SITUATIONS) & set(possible(Scope("engine").of(BuiltinEngine.profiles)))


def test_a_step_without_a_graph_that_fits_runs_all_the_same() -> None:
    """As an engine's does: only what went through a graph is counted as such."""
    counts = seen(*served(0, 1, 2), Replay("standard", (0,), 1), Capture("standard", 1), Replay("standard", (0,), 1))
    assert (counts["no_graph_fits"], counts["ran_standard"]) == (1, 1)
    two = seen(Capture("standard", 1), *served(0, 1, 2), *served(1, 2, 1), Replay("standard", (0, 1), 1))
    assert (two["no_graph_fits"], two["ran_standard"]) == (1, 0)


def test_a_runner_does_its_own_kind_of_step_only() -> None:
    """A piecewise runner takes chunks, a standard one decode steps; other events are skipped."""
    counts = seen(
        Capture("piecewise", 4), Capture("standard", 4),
        ee.Arrive(0, (1, 2)), ee.Admit(0), ReplayChunk("standard", 0, 2), ReplayChunk("piecewise", 0, 2),
        ee.Checkpoint(0), Replay("piecewise", (0,), 1), Replay("standard", (0,), 1),
    )  # fmt: skip
    assert (counts["ran_piecewise"], counts["ran_standard"], counts["no_graph_fits"]) == (1, 1, 0)


@pytest.mark.parametrize(
    ("accepted", "situation"), [(0, "accepted_none"), (1, "accepted_some"), (2, "accepted_all"), (9, "accepted_all")]
)
def test_a_draft_is_verified_once(accepted: int, situation: str) -> None:
    """And what was accepted is decoded on from."""
    counts = seen(
        Capture("speculative", 2), *served(0, 1, 2), Verify((0,), 1), Draft((0,), (1, 2)), Verify((0,), accepted),
        Verify((0,), 2), ee.Decode((0,), 1), ee.Finish(0),
    )  # fmt: skip
    assert (counts["ran_draft"], counts["ran_speculative"], counts[situation]) == (1, 1, 1)
    assert counts["verified_elsewhere"] == 0


@pytest.mark.parametrize(
    "between", [(ee.Decode((0,), 1),), (ee.Finish(0), *served(0, 2, 1)), (ee.Abort(0), ee.Arrive(0, (1, 2)))]
)
def test_a_draft_that_is_no_longer_next_is_not_verified(between: tuple[Event, ...]) -> None:
    """Its request went on, or is another one."""
    assert not seen(Capture("speculative", 2), *served(0, 1, 2), Draft((0,), (1, 2)), *between, Verify((0,), 2))[
        "ran_speculative"
    ]


def test_a_verification_may_lie_elsewhere_than_its_draft() -> None:
    """Another request was given the slots that the draft had."""
    events = (Capture("speculative", 2), *served(0, 1, 2), Draft((0,), (1, 2)), *served(1, 2, 2), Verify((0,), 2))
    assert seen(*events)["verified_elsewhere"] == 1
    divergence = found("graph-verify-keeps-draft", *events, config=replace(CONFIG, policy="side_channel"))
    assert divergence.key == ("stale-translation", "graphs")
    assert sentence(divergence, Tape(CONFIG, events)) == (
        "the graph that event 1 captured was given the translation of the draft run of event 6"
    )


def test_a_load_back_between_draft_and_verification_is_noticed() -> None:
    """A request came in whose prefix was on the host."""
    config = replace(CONFIG, host_full_size=32, host_swa_size=32)
    events = (
        *(Capture("speculative", 2), *served(0, 1, 1, 1, 1), ee.Finish(0), ee.TransferDone(9), ee.Evict(16, 16)),
        *(*served(1, 2, 2), Draft((1,), (1, 2)), ee.Arrive(0, (1, 1, 1, 1, 2)), ee.Admit(0), Verify((1,), 2)),
    )
    counts = seen(*events, config=config)
    assert (counts["host_hit"], counts["load_back_before_verify"], counts["verified_elsewhere"]) == (1, 1, 1)


def test_a_polluted_graph_names_its_capture_and_the_run_whose_answer_it_serves() -> None:
    """Here a chunk of another runner, whose translation the capture found in the cache."""
    events = (
        Capture("breakable", 2), ee.Arrive(0, (1, 1)), ee.Admit(0), ReplayChunk("breakable", 0, 2),
        Capture("standard", 2), ee.Checkpoint(0), Replay("standard", (0,), 1),
    )  # fmt: skip
    divergence = found("graph-keeps-last-run", *events)
    assert divergence.key == ("graph-pollution", "graphs")
    assert fact(divergence) == "the standard graph wrote row 0 to SWA slot 1 of layer 1, in its own capture"
    assert sentence(divergence, Tape(CONFIG, events)) == (
        "the graph that event 5 captured uses what the breakable run of event 4 translated before it"
    )
    assert [(row.loc, row.expected, row.actual) for row in divergence.rows] == [(0, 0, 1), (0, 0, 2)]


def test_a_warm_up_that_pollutes_is_named() -> None:
    """At the first replay, by the event that captured."""
    events = (Capture("standard", 2), *served(0, 1, 2), Replay("standard", (0,), 1))
    divergence = found("graph-keeps-warm-up", *events)
    assert sentence(divergence, Tape(CONFIG, events)) == (
        "the graph that event 1 captured uses what a warm-up on the dummy slot translated before it"
    )


def test_events_survive_a_tape_file() -> None:
    """With a runner that exists; another one is told by the schema."""
    tape = Tape(
        CONFIG, (Capture("breakable", 3), ReplayChunk("piecewise", 1, 2), Draft((0, 1), (2, 2)), Verify((1,), 0))
    )
    assert loads(dumps(tape)) == tape
    with pytest.raises(ValueError, match="'eager' is not one of"):
        loads(dumps(tape).replace("breakable", "eager"))


@pytest.mark.parametrize(
    "event", [Capture("standard", 4), Replay("standard", (0, 1), 2), ReplayChunk("piecewise", 0, 4),
              Draft((0, 1), (2, 2)), Verify((0, 1), 2)],
)  # fmt: skip
def test_simpler_events_ask_for_less(event: Event) -> None:
    """Each is another event of its kind, and none is listed twice."""
    simpler = list(event.simpler())
    assert simpler
    assert event not in simpler
    assert len(set(simpler)) == len(simpler)
    assert {type(it) for it in simpler} == {type(event)}

"""The model of a decode node whose requests speculate."""

from __future__ import annotations

from staleloc.models.config import Config
from staleloc.models.decode_node import Stage
from staleloc.models.draft_tree import Tree
from staleloc.models.spec_node import SpecNodeWorld
from staleloc.sim.targets.disagg import Rules
from staleloc.sim.targets.speculative import SpecRules

CONFIG = Config(level="engine", features=("disagg", "spec"), full_size=64, swa_size=64, spec_draft_tokens=2)


def running() -> SpecNodeWorld:
    """A node with one request that has taken a step."""
    world = SpecNodeWorld(CONFIG, Rules(), SpecRules())
    world.enqueue(0, [1, 2, 3], 9)
    world.admit(0, 0)
    world.arrived(0, 4)
    for stage in (Stage.PREBUILT, Stage.RUNNING):
        world.move(0, stage)
    step(world)
    return world


def step(world: SpecNodeWorld) -> None:
    """Node 0 is accepted and committed."""
    world.prepare(0)
    world.draft(0, world.rooted(0, Tree((4, 5), (0, 0))))
    world.accept(0, [0])
    world.commit(0)


def test_the_first_step_after_a_resume_counts_as_a_first_step() -> None:
    """It need not free what left the window: ``reset_for_retract`` starts counting anew."""
    world = running()
    step(world)
    assert world.speculating(0).steps == 2
    world.move(0, Stage.RETRACTED)
    world.resumed(0)
    assert world.speculating(0).steps == 0
    assert (world.speculating(0).committed, world.speculating(0).allocated) == (5, 5)


def test_a_step_that_begins_with_the_first_output_token_has_it_at_its_root() -> None:
    world = SpecNodeWorld(CONFIG, Rules(), SpecRules())
    world.enqueue(0, [1, 2, 3], 9)
    world.admit(0, 0)
    world.arrived(0, 4)
    assert world.rooted(0, Tree((7, 8), (0, 0))) == Tree((4, 8), (0, 0))
    assert running().rooted(0, Tree((7, 8), (0, 0))) == Tree((7, 8), (0, 0))

"""Play one tape of speculative decode on a target and judge its raw state after every event."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from staleloc.models.speculative import SpecWorld
from staleloc.sim.divergence import Divergence
from staleloc.sim.engine.drive import drive_steps, judged
from staleloc.sim.engine.step import EngineCheck
from staleloc.sim.events import Event
from staleloc.sim.speculative.checks import SPEC_CHECKS
from staleloc.sim.speculative.notice import SpecNoticer
from staleloc.sim.speculative.play import SPEC_PLAY
from staleloc.sim.speculative.step import SpecStep
from staleloc.sim.tape import Tape
from staleloc.sim.targets.speculative import SpeculativeTarget
from staleloc.sim.verdict import Verdict

__all__ = ["drive_spec"]


def drive_spec(tape: Tape, target: SpeculativeTarget) -> Verdict:
    """Play a tape. The first divergence ends it.

    Raises:
        TargetError: the harness cannot drive this target; nothing was found out.
    """
    target.build(tape.config)
    world = SpecWorld(tape.config, target.spec_rules())
    noticer = SpecNoticer(world)

    def play(index: int, event: Event) -> tuple[SpecStep, Divergence | None]:
        step = SpecStep(index, event, world, target)
        noticer.before(step)
        return step, judged(step, SPEC_PLAY, cast(Sequence[EngineCheck], SPEC_CHECKS), noticer.look)

    return drive_steps(tape, world, play)

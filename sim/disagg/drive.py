"""Play one tape on a decode node and judge its raw state after every event."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from staleloc.models.decode_node import DecodeWorld
from staleloc.sim.disagg.checks import DISAGG_CHECKS
from staleloc.sim.disagg.failure import failure
from staleloc.sim.disagg.notice import Noticer
from staleloc.sim.disagg.play import DISAGG_PLAY
from staleloc.sim.disagg.step import DisaggStep, step_of
from staleloc.sim.divergence import Divergence
from staleloc.sim.engine.drive import drive_steps, judged
from staleloc.sim.engine.step import EngineCheck
from staleloc.sim.events import Event
from staleloc.sim.tape import Tape
from staleloc.sim.targets.disagg import DisaggTarget
from staleloc.sim.verdict import Verdict

__all__ = ["drive_disagg"]


def drive_disagg(tape: Tape, target: DisaggTarget) -> Verdict:
    """Play a tape. The first divergence ends it.

    Raises:
        TargetError: the harness cannot drive this target; nothing was found out.
    """
    target.build(tape.config)
    world = DecodeWorld(tape.config, target.rules())
    noticer = Noticer(world)

    def play(index: int, event: Event) -> tuple[DisaggStep, Divergence | None]:
        step = step_of(index, event, world, target)
        checks = cast(Sequence[EngineCheck], DISAGG_CHECKS)
        return step, judged(step, DISAGG_PLAY, checks, noticer.look, failure)

    return drive_steps(tape, world, play)

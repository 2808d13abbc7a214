"""Play one tape on a decode node and judge its raw state after every event."""

from __future__ import annotations

from staleloc.models.decode_node import DecodeWorld
from staleloc.sim.disagg.checks import DISAGG_CHECKS
from staleloc.sim.disagg.failure import failure
from staleloc.sim.disagg.notice import Noticer
from staleloc.sim.disagg.play import DISAGG_PLAY
from staleloc.sim.disagg.step import DisaggStep, step_of
from staleloc.sim.divergence import Divergence
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
    divergence = None
    index = -1
    for index, event in enumerate(tape.events):
        world.now = index
        divergence = _play(step_of(index, event, world, target), noticer)
        if divergence is not None:
            break
    return Verdict(divergence, index + 1, +world.seen)


def _play(step: DisaggStep, noticer: Noticer) -> Divergence | None:
    try:
        if not DISAGG_PLAY[type(step.event)](step, step.event):
            return None
        noticer.look(step)
        for check in DISAGG_CHECKS:
            divergence = check.run(step)
            if divergence is not None:
                return divergence
    except Exception as error:
        return failure(step, error)
    return None

"""Play one engine-level tape on a target and judge its raw state after every event."""

from __future__ import annotations

from staleloc.models.engine import EngineWorld
from staleloc.sim.crash import crash
from staleloc.sim.divergence import Divergence
from staleloc.sim.engine.checks import ENGINE_CHECKS
from staleloc.sim.engine.notice import Noticer
from staleloc.sim.engine.play import PLAY
from staleloc.sim.engine.step import EngineStep
from staleloc.sim.patience import Stuck, hang, patience
from staleloc.sim.tape import Tape
from staleloc.sim.targets.engine import EngineTarget
from staleloc.sim.verdict import Verdict

__all__ = ["drive_engine"]


def drive_engine(tape: Tape, target: EngineTarget) -> Verdict:
    """Play a tape. The first divergence ends it.

    Raises:
        TargetError: the harness cannot drive this target; nothing was found out.
    """
    world = EngineWorld(tape.config)
    noticer = Noticer(world)
    target.build(tape.config)
    divergence = None
    index = -1
    try:
        with patience(world, tape.config.full_size):
            for index, event in enumerate(tape.events):
                world.now = index
                divergence = _play(EngineStep(index, event, world, target), noticer)
                if divergence is not None:
                    break
    except Stuck:
        divergence = hang(index, tape.events[index])
    return Verdict(divergence, index + 1, +world.seen)


def _play(step: EngineStep, noticer: Noticer) -> Divergence | None:
    try:
        if not PLAY[type(step.event)](step, step.event):
            return None
        noticer.look(step)
        for check in ENGINE_CHECKS:
            divergence = check.run(step)
            if divergence is not None:
                return divergence
    except Exception as error:
        return crash(error, step.index, step.event)
    return None

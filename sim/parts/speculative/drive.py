"""Play one tape of speculative decode on a target and judge its raw state after every event."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from ....models.speculative import SpecWorld
from ...core.divergence import Divergence
from ...core.event import Event
from ...core.tape import Tape
from ...core.verdict import Verdict
from ...targets.speculative import SpeculativeTarget
from ..engine.drive import drive_steps, judged
from ..engine.step import EngineCheck
from .checks import SPEC_CHECKS
from .play import SPEC_PLAY
from .situations import SpecNoticer
from .step import SpecStep

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

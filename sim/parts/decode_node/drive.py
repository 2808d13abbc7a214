"""Play one tape on a decode node and judge its raw state after every event."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from ....models.decode_node import DecodeWorld
from ...core.divergence import Divergence
from ...core.event import Event
from ...core.tape import Tape
from ...core.verdict import Verdict
from ...targets.disagg import DisaggTarget
from ..engine.drive import drive_steps, judged
from ..engine.step import EngineCheck
from .checks import DISAGG_CHECKS
from .failure import failure
from .play import DISAGG_PLAY
from .situations import Noticer
from .step import DisaggStep, step_of

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

"""The command ``staleloc ci``: finds out what is tested and what is known, plays, judges, and writes the reports."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from ..findings.saves import Saves
from ..run.pool import WorkerPool
from ..run.process import kill_workers
from ..run.progress import progress
from ..targets.base import Pins, Scope, TargetError
from ..targets.registry import release_of
from .bases import Bases
from .blame import located
from .checkout import locate
from .clock import Clock
from .corpus import Corpus
from .outcome import GateResult
from .play import Gate, GatePlan

__all__ = ["GateRequest", "run"]


@dataclass(frozen=True)
class GateRequest:
    """The user's request.

    Attributes:
        target: a target's name, or a folder with a checkout.
        bases: refs, targets and files of accepted findings.
        seconds: the time limit; None if `tapes` is given.
        tapes: random tapes of each scope.
        kept: folder of kept tapes; None for the folder that new ones are saved in.
        corpus: folder of tapes that grows, or None.
        minimal: whether known findings are shrunk too.
        scope: the level and features of random tapes; None for all that the target has.
        pins: fields of the config that have one value in every random tape, if `scope` is None.
    """

    target: str
    bases: tuple[str, ...]
    seed: int
    seconds: float | None
    tapes: int | None
    workers: int
    kept: Path | None = None
    corpus: Path | None = None
    minimal: bool = False
    scope: Scope | None = None
    pins: Pins = ()


def run(request: GateRequest, folder: Path, saves: Saves) -> GateResult:
    """Play and judge. Of the files only tapes of new findings and those of the corpus are written.

    Args:
        folder: where new findings are saved; its tapes are kept tapes.
        saves: saves them.

    Raises:
        TargetError: the target or the base cannot be had or driven, or nothing was played.
        KeepError: a file cannot be read, or one could not be written later.
    """
    clock = Clock(request.seconds)
    subject = locate(request.target)
    release = release_of(subject.target)
    result = GateResult(subject, release, request.seed)
    corpus = None if request.corpus is None else Corpus.load(request.corpus)
    plan = GatePlan(
        subject.target,
        release,
        request.seed,
        request.tapes,
        request.workers,
        list(dict.fromkeys([*_kept(request.kept, folder), *(corpus.files() if corpus is not None else [])])),
        minimal=request.minimal,
        scope=request.scope,
        pins=request.pins,
    )
    with ExitStack() as stack:
        commits = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="staleloc-base-")))
        pool = stack.enter_context(WorkerPool())
        show = stack.enter_context(progress())
        gate = Gate(plan, clock, pool, show, result, saves, corpus=corpus)
        known = stack.enter_context(Bases(subject, commits, gate.player))
        gate.known = [known.of(text) for text in request.bases]
        late = False
        try:
            with clock.enforced(kill_workers):
                _play(gate, known, corpus)
                result.stale = gate.stale(known.entries)
                if result.failures:
                    show.stage("looking for the lines of the source")
                    result.cases = located(subject.target, result.cases, known.changed(), lambda: clock.is_late)
        except KeyboardInterrupt:
            result.interrupted = True
        except TargetError as error:
            if not clock.is_late:
                raise
            late = result.interrupted = True
            result.warnings.append(f"the time was spent while the target did not answer: {error}")
        result.warnings += [f"the base cannot play a tape: {why}" for it in known.targets for why in it.unplayable]
    result.seconds = clock.spent
    if result.tapes == 0 and not result.failures and (late or not result.interrupted):
        why = "; the target had not answered when the time was over" if late else ""
        raise TargetError(
            f"no random tape was played on {subject.target} in {request.seconds:g} s{why}; give more --minutes"
        )
    return result


def _play(gate: Gate, bases: Bases, corpus: Corpus | None) -> None:
    """Play everything and enter the verdicts into the result."""
    gate.play_scenarios(bases)
    gate.play_kept()
    gate.fuzz()
    if corpus is not None:
        corpus.merge()
        corpus.save()


def _kept(folder: Path | None, saved: Path) -> list[Path]:
    if folder is not None and not folder.is_dir():
        raise TargetError(f"{folder} is no folder; give the folder of the kept tapes")
    return sorted((folder or saved).glob("*.json"))

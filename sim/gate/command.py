"""The command ``staleloc ci``: finds out what is tested and what is known, plays, judges, and writes the reports."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from ..findings.files import save, write
from ..findings.finding import Finding
from ..matrix.measurements import Replayed
from ..matrix.record import counterpart_of
from ..run.player import Player
from ..run.pool import WorkerPool
from ..run.progress import progress
from ..tapes.scenarios import scenarios
from ..targets.base import TargetError
from ..targets.registry import family_of, release_of
from .accepted import Accepted, Entry, merged, read, to_text, unreviewed
from .blame import changed_lines, located
from .checkout import Subject, archived, commit_of, locate
from .clock import Clock
from .known import BaseTarget, Known, Record
from .outcome import Case, GateResult
from .outputs import GateOutputs
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
    """

    target: str
    bases: tuple[str, ...]
    seed: int
    seconds: float | None
    tapes: int | None
    workers: int
    kept: Path | None = None


def run(request: GateRequest, outputs: GateOutputs) -> GateResult:
    """Play and judge, and write the files.

    Raises:
        TargetError: the target or the base cannot be had or driven, or nothing was played.
        KeepError: a file cannot be read or written.
    """
    clock = Clock(request.seconds)
    outputs.check()
    subject = locate(request.target)
    release = release_of(subject.target)
    result = GateResult(subject, release, request.seed)
    plan = GatePlan(
        subject.target,
        release,
        request.seed,
        request.tapes,
        request.workers,
        _kept(request.kept, outputs.folder),
        minimal=outputs.accept is not None,
    )
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="staleloc-base-")))
        pool = stack.enter_context(WorkerPool())
        show = stack.enter_context(progress())
        gate = Gate(plan, clock, pool, show, result, lambda finding: save(finding, outputs.folder))
        known = _Known(subject, folder, gate.player)
        bases = [known.of(text) for text in request.bases]
        for base in bases:
            if isinstance(base, BaseTarget):
                stack.callback(base.close)
        shown = gate.replay_scenarios()
        gate.known = bases or [_record(subject.target, release, shown)]
        result.base = [it.name for it in gate.known]
        gate.judge_scenarios()
        gate.play_kept()
        gate.fuzz()
        result.stale = gate.stale(known.entries)
        result.warnings += [f"the base cannot play a tape: {why}" for it in known.targets for why in it.unplayable]
        if result.failures:
            show.stage("looking for the lines of the source")
            result.cases = located(subject.target, result.cases, known.changed(), lambda: clock.is_late)
    result.seconds = clock.spent
    if result.tapes == 0 and not result.interrupted:
        raise TargetError(
            f"no random tape was played on {subject.target} in {request.seconds:g} s; give more --minutes"
        )
    outputs.write(result)
    if outputs.accept is not None:
        _accept(outputs.accept, result, bool(bases))
    return result


def _kept(folder: Path | None, saved: Path) -> list[Path]:
    if folder is not None and not folder.is_dir():
        raise TargetError(f"{folder} is no folder; give the folder of the kept tapes")
    return sorted((folder or saved).glob("*.json"))


def _record(target: str, release: str | None, shown: dict[str, Replayed]) -> Record:
    return Record(counterpart_of(target, release, shown, scenarios()), shown, scenarios())


@dataclass
class _Known:
    """The bases that the user names, and what they need."""

    subject: Subject
    folder: Path
    open_player: Callable[[str], Player]

    def __post_init__(self) -> None:
        self.targets: list[BaseTarget] = []
        self.entries: list[Entry] = []

    def of(self, text: str) -> Known:
        """Return the source of known findings that a text names: a file, a target, or else a ref."""
        path = Path(text).expanduser()
        if path.is_file() and path.suffix == ".json":
            entries = read(path)
            self.entries += entries
            return Accepted(text, entries)
        family = family_of(text)
        if family is not None and family.parse(text) is not None:
            release_of(text)
            return self._add(BaseTarget(text, text, self.open_player))
        commit = commit_of(self.subject, text)
        target = archived(self.subject, commit, self.folder / str(len(self.targets)))
        return self._add(BaseTarget(f"{text} ({commit[:9]})", target, self.open_player))

    def _add(self, base: BaseTarget) -> BaseTarget:
        self.targets.append(base)
        return base

    def changed(self) -> dict[str, set[int]]:
        """Return the lines that differ from the first base that has sources."""
        for base in self.targets:
            if _same_family(base.target, self.subject.target):
                return changed_lines(self.subject.target, base.target)
        return {}


def _same_family(one: str, other: str) -> bool:
    return family_of(one) is family_of(other)


def _accept(path: Path, result: GateResult, has_base: bool) -> None:
    """Write the findings that are accepted: with a base what it shows, without one everything."""
    before = read(path, reviewed=False) if path.exists() and path.stat().st_size else []
    cases = [it for it in result.cases if it.finding is not None and (it.verdict == "known" or not has_base)]
    entries = merged(before, _findings(cases))
    write(path, to_text(entries))
    missing = len(unreviewed(entries))
    result.warnings.append(
        f"wrote {len(entries)} findings to {path}"
        + (f"; {missing} of them need a reason before the file can be a base" if missing else "")
    )


def _findings(cases: Sequence[Case]) -> Iterator[tuple[Finding, str | None]]:
    for case in cases:
        assert case.finding is not None
        yield case.finding, case.scenario

"""The command ``staleloc matrix``: begins or continues a matrix, measures, and writes the tables."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from packaging.version import InvalidVersion

from ..findings.files import KeepError, Writer
from ..findings.finding import our_version
from ..run.progress import progress
from ..tapes.scenarios import scenarios
from ..targets.base import TargetError
from ..targets.registry import released
from . import file, pages
from .measure import Session
from .measurements import BLIND, SECONDS, SEEDS, HuntBudget, Matrix
from .record import alarms, release_number

__all__ = ["Asked", "MatrixOutputs", "run"]


@dataclass(frozen=True)
class Asked:
    """The user's request. None stands for the value of the file, or else the default.

    Attributes:
        targets: targets to measure; empty for all releases.
        blind: where to hunt as well; one of `measurements.BLIND`.
        measure: whether to measure at all.
    """

    targets: tuple[str, ...]
    seeds: tuple[int, ...] | None
    budget: HuntBudget | None
    workers: int = 1
    blind: str = BLIND[0]
    measure: bool = True


@dataclass(frozen=True)
class MatrixOutputs:
    """Files to write."""

    json: Path | None
    html: Path | None
    markdown: tuple[Path, ...] = ()


class _Saver:
    """Saves a matrix each time it has grown.

    Attributes:
        failed: why it could not be saved the last time; None if it was. A save that fails ends no measurement.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self.failed: str | None = None

    def __call__(self, matrix: Matrix) -> None:
        if self._path is not None:
            try:
                file.save(matrix, self._path)
                self.failed = None
            except KeepError as error:
                self.failed = str(error)


def run(
    asked: Asked, outputs: MatrixOutputs, writer: Writer | None = None, show: Callable[[str], None] = lambda text: None
) -> tuple[bool, bool, str]:
    """Measure and write; return whether there is something new, whether Ctrl-C ended the run, and the table.

    Args:
        writer: gets what could not be written.
        show: prints the table, before the pages are written.

    Raises:
        KeepError: a file cannot be continued, or another run holds it.
        TargetError: nothing can be measured on any target.
    """
    writer = writer or Writer()
    for path in outputs.markdown:
        pages.check_markdown(path)
    with file.locked(outputs.json) if outputs.json is not None and asked.measure else nullcontext():
        matrix = _begun(asked, outputs.json)
        save = _Saver(outputs.json)
        interrupted = asked.measure and not _measure(matrix, asked, save)
    if save.failed is not None:
        writer.failed.append(save.failed)
    known = scenarios()
    text = pages.to_text(matrix, known)
    show(text)
    writer.write(outputs.html, lambda: pages.to_html(matrix, known))
    for path in outputs.markdown:
        writer.write(path, partial(pages.to_markdown_in, path, matrix, known))
    return bool(alarms(matrix, known)), interrupted, text


def _begun(asked: Asked, path: Path | None) -> Matrix:
    """Return the matrix of the file, or an empty one."""
    if path is not None and not path.exists() and not asked.measure:
        raise KeepError(f"{path} does not exist, and --show measures nothing")
    if path is None or not path.exists():
        budget = asked.budget or HuntBudget(seconds=SECONDS)
        return Matrix(asked.seeds or SEEDS, budget, os.cpu_count() or 1, our_version())
    matrix = file.load(path)
    for name, wanted, has in (("seeds", asked.seeds, matrix.seeds), ("budget", asked.budget, matrix.budget)):
        if wanted is not None and wanted != has:
            raise KeepError(f"{path} was measured with another {name} ({has}); give another file, or the same {name}")
    return matrix


def _measure(matrix: Matrix, asked: Asked, save: Callable[[Matrix], None]) -> bool:
    """Measure and return whether that was completed. A matrix without releases is not saved."""
    targets = asked.targets or released().releases
    _check_versions(targets)
    try:
        with progress() as show:
            session = Session(matrix, scenarios(), save, show)
            session.replays(targets)
            if asked.blind != "none":
                session.hunts(asked.workers, asked.blind == "quiet")
    except KeyboardInterrupt:
        return False
    finally:
        if matrix.releases:
            save(matrix)
    if not matrix.releases:
        raise TargetError("; ".join(matrix.absent.values()))
    return True


def _check_versions(targets: Sequence[str]) -> None:
    """Raise TargetError if a release has an invalid version."""
    for target in targets:
        try:
            release_number(target)
        except InvalidVersion:
            example = released().releases[-1]
            raise TargetError(f"{target}: not a version; name a release such as {example}") from None

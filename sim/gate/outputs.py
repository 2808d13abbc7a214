"""The files of a gate, written in one place, each on its own: one that cannot be written takes no other with it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..findings.files import KeepError, check_outputs, save, write
from ..findings.finding import Finding
from . import formats, report
from .accepted import Entry, merged, read, to_text, unreviewed
from .outcome import GateResult

__all__ = ["GateOutputs"]


@dataclass(frozen=True)
class GateOutputs:
    """Files that the command was asked to write.

    Attributes:
        summary: the step summary, to which is appended.
        accept: the file of accepted findings, which is read first.
        folder: where minimal tapes go.
    """

    junit: Path | None = None
    sarif: Path | None = None
    json: Path | None = None
    summary: Path | None = None
    accept: Path | None = None
    folder: Path = Path("staleloc-tapes")

    def check(self, bases: Sequence[str]) -> None:
        """Raise KeepError unless all can be written, and none but the accepted findings is read as a base."""
        reports = [path for path in (self.junit, self.sarif, self.json, self.summary) if path is not None]
        read_first = {Path(base).expanduser().resolve() for base in bases}
        for path in reports:
            if path.resolve() in read_first:
                raise KeepError(f"{path} is a base, and would be overwritten; give another path")
        check_outputs(*reports, self.accept, folder=self.folder)

    def save(self, finding: Finding) -> Path:
        """Save the tape of a new finding and return its path."""
        return save(finding, self.folder)

    def accepted(self) -> list[Entry]:
        """Return the entries of the file of accepted findings that is there already."""
        if self.accept is None or not self.accept.exists() or not self.accept.stat().st_size:
            return []
        return read(self.accept, reviewed=False)

    def write(self, result: GateResult, before: Sequence[Entry], has_base: bool) -> tuple[list[str], list[str]]:
        """Write the files that hold the result. Return what there is to tell, and why some were not written.

        Args:
            before: see `accepted`.
            has_base: only what a base shows is accepted; otherwise everything is.
        """
        told: list[str] = []
        failed: list[str] = []

        def put(path: Path | None, text: Callable[[], str], how: Callable[[Path, str], None] = write) -> None:
            if path is not None:
                try:
                    how(path, text())
                except KeepError as error:
                    failed.append(str(error))

        put(self.junit, lambda: formats.to_junit(result))
        put(self.sarif, lambda: json.dumps(formats.to_sarif(result), indent=1) + "\n")
        put(self.json, lambda: json.dumps(report.to_json(result), indent=1) + "\n")
        put(self.summary, lambda: report.to_markdown(result), _append)
        if self.accept is not None:
            entries = merged(before, _accepted(result, has_base))
            put(self.accept, lambda: to_text(entries))
            missing = len(unreviewed(entries))
            todo = f"; {missing} of them need a reason before the file can be a base" if missing else ""
            told.append(f"{self.accept} has {len(entries)} findings{todo}")
        return told, failed


def _accepted(result: GateResult, has_base: bool) -> list[tuple[Finding, str | None]]:
    return [
        (case.finding, case.scenario)
        for case in result.cases
        if case.finding is not None and (case.verdict == "known" or not has_base)
    ]


def _append(path: Path, text: str) -> None:
    """Append to a file that other steps of a workflow write to as well."""
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise KeepError(f"{os.fspath(path)} cannot be written ({error.strerror or error}); give another path") from None

"""The files of a gate, written in one place, each on its own: one that cannot be written takes no other with it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..findings.files import Writer, read_text
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
    """

    junit: Path | None = None
    sarif: Path | None = None
    json: Path | None = None
    summary: Path | None = None
    accept: Path | None = None

    def accepted(self) -> list[Entry]:
        """Return the entries of the file of accepted findings that is there already."""
        if self.accept is None or not self.accept.exists() or not self.accept.stat().st_size:
            return []
        return read(self.accept, reviewed=False)

    def write(self, result: GateResult, before: Sequence[Entry], has_base: bool, writer: Writer) -> list[str]:
        """Write the files that hold the result, and return what there is to tell.

        Args:
            before: see `accepted`.
            has_base: only what a base shows is accepted; otherwise everything is.
            writer: gets what could not be written.
        """
        writer.write(self.junit, lambda: formats.to_junit(result))
        writer.write(self.sarif, lambda: json.dumps(formats.to_sarif(result), indent=1) + "\n")
        writer.write(self.json, lambda: json.dumps(report.to_json(result), indent=1) + "\n")
        writer.write(self.summary, lambda: _so_far(self.summary) + report.to_markdown(result))
        if self.accept is None:
            return []
        entries = merged(before, _accepted(result, has_base))
        if not writer.write(self.accept, lambda: to_text(entries)):
            return []
        missing = len(unreviewed(entries))
        todo = f"; {missing} of them need a reason before the file can be a base" if missing else ""
        return [f"{self.accept} has {len(entries)} findings{todo}"]


def _accepted(result: GateResult, has_base: bool) -> list[tuple[Finding, str | None]]:
    return [
        (case.finding, case.scenario)
        for case in result.cases
        if case.finding is not None and (case.verdict == "known" or not has_base)
    ]


def _so_far(path: Path | None) -> str:
    """Return what other steps of a workflow have written."""
    return read_text(path) if path is not None and path.exists() else ""

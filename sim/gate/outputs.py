"""The files of a gate, written in one place."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

from ..findings.files import KeepError, check_outputs, write
from . import formats, report
from .outcome import GateResult

__all__ = ["GateOutputs"]


@dataclass(frozen=True)
class GateOutputs:
    """Files that the command was asked to write.

    Attributes:
        folder: where minimal tapes go.
        summary: the step summary, to which is appended.
        accept: the file of accepted findings.
    """

    junit: Path | None = None
    sarif: Path | None = None
    json: Path | None = None
    summary: Path | None = None
    accept: Path | None = None
    folder: Path = Path("staleloc-tapes")

    def check(self) -> None:
        """Raise KeepError unless all can be written."""
        check_outputs(self.junit, self.sarif, self.json, self.summary, self.accept, folder=self.folder)

    def write(self, result: GateResult) -> None:
        """Write the files that hold the result."""
        if self.junit is not None:
            write(self.junit, formats.to_junit(result))
        if self.sarif is not None:
            write(self.sarif, json.dumps(formats.to_sarif(result), indent=1) + "\n")
        if self.json is not None:
            write(self.json, json.dumps(report.to_json(result), indent=1) + "\n")
        if self.summary is not None:
            _append(self.summary, report.to_markdown(result))


def _append(path: Path, text: str) -> None:
    """Append to a file that other steps of a workflow write to as well."""
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise KeepError(f"{os.fspath(path)} cannot be written ({error.strerror or error}); give another path") from None

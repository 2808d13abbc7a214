"""``python -m staleloc.sim.cli.schemas`` writes the JSON Schema files of tapes, summaries, matrices, coverage
reports, gates and accepted findings.
"""

from __future__ import annotations

from pathlib import Path

from ..coverage.report import coverage_schema
from ..gate.accepted import accepted_schema
from ..gate.report import gate_schema
from ..matrix.file import matrix_schema
from ..tapes.schema import dumps, summary_schema, tape_schema

__all__ = ["main"]


def main() -> None:
    """Write each schema file into the room of its format."""
    sim = Path(__file__).parents[1]
    files = {
        "tapes/tape": tape_schema(),
        "findings/summary": summary_schema(),
        "matrix/matrix": matrix_schema(),
        "coverage/coverage": coverage_schema(),
        "gate/gate": gate_schema(),
        "gate/accepted": accepted_schema(),
    }
    for name, schema in files.items():
        (sim / f"{name}.schema.json").write_text(dumps(schema), encoding="utf-8")


if __name__ == "__main__":
    main()

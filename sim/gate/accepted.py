"""The file of accepted findings: reviewed, one reason each (``accepted.schema.json``).

An entry holds the tape that shows the finding, so that each run can tell whether the target still has it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema

from ..core.divergence import CLASSES, Divergence
from ..core.schema import Schema
from ..core.tape import Tape
from ..findings.files import KeepError
from ..findings.finding import Finding
from ..tapes.codec import JsonError, TapeError, loads, parse_json, to_json
from ..tapes.scenarios import plain
from ..tapes.schema import DIALECT, VERSION, closed, tape_schema
from .known import Candidate

__all__ = ["Accepted", "Entry", "accepted_schema", "entry_of", "merged", "read", "to_text", "unreviewed"]

FORMAT = "staleloc-accepted"
FILE_VERSION = 1


@dataclass(frozen=True)
class Entry:
    """A finding that was accepted.

    Attributes:
        kind: class of the divergence.
        check: the check that reported it.
        what: its message, with # for numbers.
        during: decisive situations of the event.
        scenario: the scenario whose tape this is, or None.
        reason: why it is accepted; empty until somebody has reviewed it.
        tape: the tape that shows it.
    """

    kind: str
    check: str
    what: str
    during: tuple[str, ...]
    scenario: str | None
    reason: str
    tape: Tape

    def is_like(self, tape: Tape, divergence: Divergence, scenario: str | None = None) -> bool:
        """Return whether a finding is this one: the same scenario; or the same class, check and situation with the same
        message or the same kinds of events."""
        if scenario is not None or self.scenario is not None:
            return scenario == self.scenario and self._is_key(divergence)
        kinds = [event.kind for event in tape.events]
        alike = plain(divergence.what) == self.what or (
            self.kind != "crash" and kinds == [event.kind for event in self.tape.events]
        )
        return self._is_key(divergence) and alike

    def _is_key(self, divergence: Divergence) -> bool:
        return (*divergence.key, divergence.during) == (self.kind, self.check, self.during)


@dataclass
class Accepted:
    """The findings of a file as a source of what is known."""

    name: str
    entries: Sequence[Entry]

    def knows(self, candidate: Candidate) -> str | None:
        """See `Known`."""
        scenario = candidate.scenario.name if candidate.scenario is not None else None
        for entry in self.entries:
            if entry.is_like(candidate.tape, candidate.divergence, scenario):
                return f"accepted: {entry.reason}"
        return None


@cache
def accepted_schema() -> Schema:
    """Return the schema of the file."""
    name: Schema = {"type": "string", "minLength": 1}
    entry = closed({
        "class": {"enum": list(CLASSES)},
        "check": name,
        "what": {"description": "Message, with # for numbers.", **name},
        "during": {"description": "Decisive situations of the event.", "type": "array", "items": name},
        "scenario": {"description": "The scenario whose tape this is, or null.", "type": ["string", "null"]},
        "reason": {"description": "Why it is accepted; a base needs one.", "type": "string"},
        "tape": {"$ref": f"urn:staleloc:tape:{VERSION}"},
    })  # fmt: skip
    return {
        "$schema": DIALECT,
        "$id": f"urn:staleloc:accepted:{FILE_VERSION}",
        "title": "staleloc accepted findings",
        "description": "Findings that a reviewer has accepted, with a reason each.",
        **closed(
            {
                "format": {"const": FORMAT},
                "version": {"const": FILE_VERSION},
                "findings": {"type": "array", "items": entry},
            }
        ),
        "$defs": {"tape": tape_schema()},
    }


def read(path: Path, *, reviewed: bool = True) -> list[Entry]:
    """Return the entries of a file.

    Args:
        reviewed: whether each entry must have a reason.

    Raises:
        KeepError: it is no such file, or a reason is missing.
    """
    try:
        values: Any = parse_json(path.read_text(encoding="utf-8"))
        if not isinstance(values, dict) or values.get("format") != FORMAT:
            raise KeepError(f'{path} holds no accepted findings ("format": "{FORMAT}"); write one with --accept')
        jsonschema.validate(values, _frame())
        entries = [_entry(it, f"{path}: finding {number}") for number, it in enumerate(values["findings"], 1)]
    except OSError as error:
        raise KeepError(f"{path} cannot be read ({error.strerror or error})") from None
    except jsonschema.ValidationError as error:
        raise KeepError(f"{path}: at {error.json_path}: {error.message[:100]}; see accepted.schema.json") from None
    except TapeError as error:
        raise KeepError(str(error)) from None
    except (JsonError, ValueError, RecursionError) as error:
        raise KeepError(f"{path} holds no accepted findings: {error}") from None
    for number, entry in enumerate(entries, 1):
        if reviewed and not entry.reason.strip():
            raise KeepError(
                f"{path}: finding {number} ({entry.kind}: {entry.what[:60]}) has no reason; write why it is accepted, "
                "or remove it"
            )
    return entries


def _frame() -> Schema:
    """Return the schema with any tape, which is validated when it is read."""
    schema = accepted_schema()
    findings = schema["properties"]["findings"]
    entry = findings["items"]
    anything = {**entry, "properties": {**entry["properties"], "tape": {"type": "object"}}}
    return {**schema, "properties": {**schema["properties"], "findings": {**findings, "items": anything}}}


def _entry(values: dict[str, Any], name: str) -> Entry:
    return Entry(
        values["class"],
        values["check"],
        values["what"],
        tuple(values["during"]),
        values["scenario"],
        values["reason"],
        loads(json.dumps(values["tape"]), name),
    )


def entry_of(finding: Finding, scenario: str | None) -> Entry:
    """Return the entry of a finding, without a reason."""
    it = finding.divergence
    return Entry(it.kind, it.check, plain(it.what), it.during, scenario, "", finding.documented())


def merged(entries: Sequence[Entry], findings: Iterable[tuple[Finding, str | None]]) -> list[Entry]:
    """Return the entries, and one more for each finding that is like none of them. Reasons stay."""
    result = list(entries)
    for finding, scenario in findings:
        if not any(it.is_like(finding.tape, finding.divergence, scenario) for it in result):
            result.append(entry_of(finding, scenario))
    return result


def to_text(entries: Sequence[Entry]) -> str:
    """Return the text of the file."""
    findings = [
        {
            "class": it.kind,
            "check": it.check,
            "what": it.what,
            "during": list(it.during),
            "scenario": it.scenario,
            "reason": it.reason,
            "tape": to_json(it.tape),
        }
        for it in entries
    ]
    return json.dumps({"format": FORMAT, "version": FILE_VERSION, "findings": findings}, indent=1) + "\n"


def unreviewed(entries: Sequence[Entry]) -> list[Entry]:
    """Return the entries that have no reason yet."""
    return [it for it in entries if not it.reason.strip()]

"""The gate's report as text, as a step summary in Markdown, and as JSON (``gate.schema.json``)."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from functools import cache
from typing import Any

from ..core.divergence import CLASSES
from ..core.schema import Schema
from ..findings.explain import fact, sentence
from ..findings.finding import Finding, our_version
from ..findings.text import columns, render
from ..tapes.codec import to_json as tape_to_json
from ..tapes.schema import DIALECT, closed, tape_schema
from .outcome import KEPT, SCENARIOS, VERDICTS, Case, GateResult, Place

__all__ = ["gate_schema", "headline", "place_text", "to_json", "to_markdown", "to_text"]

_WIDTH = 118

_VERSION = 1


def headline(result: GateResult) -> str:
    """Return the outcome in one line."""
    new, back, known = (result.count(verdict) for verdict in ("new", "back", "known"))
    found = [f"{new} new finding{'s' * (new != 1)}"] if new or not back else []
    found += [f"{back} incident{'s' * (back != 1)} back"] if back else []
    told = f", {known} known" if known else ""
    return f"{result.subject.target}: {', '.join(found)}{told}{', interrupted' if result.interrupted else ''}"


def place_text(result: GateResult, place: Place) -> str:
    """Return a place with its path in the repository."""
    return f"{result.subject.prefix}{place.path}:{place.line} ({place.why})"


def to_text(result: GateResult) -> str:
    """Return the report for a terminal: each failing case in full, then the counts."""
    lines: list[str] = []
    for case in result.failures:
        lines += [*_failing(result, case), ""]
    lines += [headline(result), *columns(list(_counts(result)))]
    known = [case for case in result.cases if case.verdict == "known"]
    if known:
        lines.append("known:")
        lines += columns([(case.group, _cut(case.title), case.why) for case in known])
    for entry in result.stale:
        lines += _wrapped(f"stale: {entry.kind}: {entry.what} no longer diverges; remove it from the accepted findings")
    return "\n".join(lines) + "\n"


def _failing(result: GateResult, case: Case) -> Iterator[str]:
    assert case.finding is not None
    heading = {"new": "NEW", "back": "BACK"}[case.verdict]
    yield f"{heading}: {case.group}, {case.name}"
    for place in case.places:
        yield f"  look at {place_text(result, place)}"
    yield from render(case.finding, case.saved).rstrip().splitlines()


def _counts(result: GateResult) -> Iterator[tuple[str, ...]]:
    yield ("compared with", ", ".join(result.base))
    for group in (SCENARIOS, KEPT):
        told = [f"{count} {verdict}" for verdict in VERDICTS if (count := result.count(verdict, group))]
        if told:
            yield (group, ", ".join(told))
    for it in result.played:
        diverged = f", {it.diverged} diverged" if it.diverged else ""
        yield (str(it.scope), f"{it.tapes} tapes, {it.events} events{diverged}")
    yield ("time", f"{result.seconds:.0f} s")


def _cut(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:77]}..."


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent="  ", subsequent_indent="    ", break_long_words=False)


def to_markdown(result: GateResult) -> str:
    """Return the summary of a workflow step."""
    lines = [f"### staleloc: {_cell(headline(result))}", ""]
    if result.failures:
        lines += ["| verdict | where | what | look at |", "|---|---|---|---|"]
        for case in result.failures:
            look = "<br>".join(f"`{result.subject.prefix}{it.path}:{it.line}`" for it in case.places)
            lines.append(f"| **{case.verdict}** | {_cell(case.group)} | {_cell(case.title)} | {look} |")
        lines.append("")
        for case in result.failures:
            assert case.finding is not None
            text = render(case.finding, case.saved).rstrip()
            lines += [
                f"<details><summary>{_cell(case.title)}</summary>",
                "",
                "````",
                text,
                "````",
                "",
                "</details>",
                "",
            ]
    lines += ["| tapes | result |", "|---|---|"]
    lines += [f"| {_cell(name)} | {_cell(told)} |" for name, told in _counts(result)]
    known = [case for case in result.cases if case.verdict == "known"]
    if known:
        lines += ["", f"<details><summary>{len(known)} known</summary>", "", "| where | what | why |", "|---|---|---|"]
        lines += [f"| {_cell(case.group)} | {_cell(case.title)} | {_cell(case.why)} |" for case in known]
        lines += ["", "</details>"]
    notes = [f"no longer diverges, remove it: {it.kind}: {it.what}" for it in result.stale] + result.warnings
    lines += ["", *(f"- {_cell(note)}" for note in notes)] if notes else []
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    plain = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return plain.replace("|", "\\|").replace("`", "\\`")


def to_json(result: GateResult) -> dict[str, Any]:
    """Return the result as JSON values, valid under ``gate.schema.json``."""
    return {
        "staleloc": our_version(),
        "target": result.subject.target,
        "release": result.release,
        "base": list(result.base),
        "seed": result.seed,
        "verdict": "fail" if result.failures else "interrupted" if result.interrupted else "pass",
        "cases": [_case(result, case) for case in result.cases],
        "played": [
            {
                "level": it.scope.level,
                "features": list(it.scope.features),
                "tapes": it.tapes,
                "events": it.events,
                "diverged": it.diverged,
            }
            for it in result.played
        ],
        "stale": [{"class": it.kind, "what": it.what, "reason": it.reason} for it in result.stale],
        "warnings": list(result.warnings),
        "seconds": round(result.seconds, 3),
    }


def _case(result: GateResult, case: Case) -> dict[str, Any]:
    return {
        "group": case.group,
        "name": case.name,
        "verdict": case.verdict,
        "why": case.why,
        "finding": None if case.finding is None else _finding(case.finding),
        "places": [
            {"path": result.subject.prefix + it.path, "line": it.line, "why": it.why} for it in case.places
        ],
    }  # fmt: skip


def _finding(finding: Finding) -> dict[str, Any]:
    divergence = finding.divergence
    return {
        "class": divergence.kind,
        "check": divergence.check,
        "sentence": f"{fact(divergence)}: {sentence(divergence, finding.tape)}",
        "again": finding.origin.again,
        "tape": tape_to_json(finding.documented()),
    }


@cache
def gate_schema() -> Schema:
    """Return the schema of the file of ``staleloc ci --json``."""
    text: Schema = {"type": "string"}
    count: Schema = {"type": "integer", "minimum": 0}
    texts: Schema = {"type": "array", "items": text}
    finding = closed({
        "class": {"enum": list(CLASSES)},
        "check": text,
        "sentence": {"description": "What differs, and why.", **text},
        "again": {"description": "The command line that shows it again.", **text},
        "tape": {"$ref": "#/$defs/tape"},
    })  # fmt: skip
    place = closed({"path": {"description": "From the repository's root.", **text}, "line": count, "why": text})
    case = closed({
        "group": {"description": "Scenarios, kept tapes, or the scope of the random tape.", **text},
        "name": text,
        "verdict": {"enum": list(VERDICTS)},
        "why": {"description": "Why it is known, or cannot be played.", **text},
        "finding": {"anyOf": [finding, {"type": "null"}]},
        "places": {"description": "Lines to look at.", "type": "array", "items": place},
    })  # fmt: skip
    played = closed({"level": text, "features": texts, "tapes": count, "events": count, "diverged": count})
    stale = closed({"class": text, "what": text, "reason": text})
    return {
        "$schema": DIALECT,
        "$id": f"urn:staleloc:gate:{_VERSION}",
        "title": "staleloc gate",
        "description": "What a change breaks, told apart from what its base shows as well.",
        **closed(
            {
                "staleloc": {"description": "Version that made it.", **text},
                "target": text,
                "release": {"type": ["string", "null"]},
                "base": {"description": "What was known.", **texts},
                "seed": {"type": "integer", "minimum": 0},
                "verdict": {"enum": ["pass", "fail", "interrupted"]},
                "cases": {"type": "array", "items": case},
                "played": {"description": "Random tapes of each scope.", "type": "array", "items": played},
                "stale": {"description": "Accepted findings that no longer diverge.", "type": "array", "items": stale},
                "warnings": texts,
                "seconds": {"type": "number", "minimum": 0},
            }
        ),
        "$defs": {"tape": tape_schema()},
    }

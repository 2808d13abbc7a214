"""Lines of a target's source to look at first: changed ones that a diverging tape runs.

If nothing changed that is known of, it is the lines that only the diverging event runs.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ..core.tape import Tape
from ..coverage.measure import lines_run
from ..coverage.table import matches
from ..targets.base import TargetError
from ..targets.family import SourceTree
from ..targets.registry import parse
from .outcome import Case, Place

__all__ = ["changed_lines", "located"]

MAX_CASES = 8
"""Cases for which places are looked up; each plays a tape or two."""

MAX_PLACES = 3
"""Places of one case."""

CHANGED = "changed, and run by the diverging tape"
REACHED = "first run by the event that diverges"

Lines = dict[str, set[int]]


def changed_lines(target: str, base: str) -> Lines:
    """Return the lines that a target has and its base has not, by path. Where lines were only removed, these are the
    lines around the gap.

    Raises:
        TargetError: the sources of one cannot be read.
    """
    new, old = _sources(target), _sources(base)
    changed: Lines = {}
    for path, file in new.items():
        if path not in old:
            changed[path] = set(range(1, len(_lines(file)) + 1))
        elif file.read_bytes() != old[path].read_bytes():
            changed[path] = _changed(_lines(old[path]), _lines(file))
    return changed


def _changed(old: list[str], new: list[str]) -> set[int]:
    found: set[int] = set()
    for kind, _, _, start, stop in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind in ("insert", "replace"):
            found.update(range(start + 1, stop + 1))
        elif kind == "delete":
            found.update((start, start + 1))
    return found


def _lines(file: Path) -> list[str]:
    return file.read_text(encoding="utf-8", errors="replace").splitlines()


def _tree(target: str) -> tuple[SourceTree, Sequence[str]]:
    spec = parse(target)
    return spec.family.sources(spec), spec.family.covered


def _sources(target: str) -> dict[str, Path]:
    """Return the files that coverage counts, by path."""
    tree, patterns = _tree(target)
    files = {file.relative_to(tree.root).as_posix(): file for file in sorted(tree.root.rglob("*.py"))}
    return {path: file for path, file in files.items() if matches(patterns, path)}


def located(
    target: str, cases: Sequence[Case], changed: Mapping[str, set[int]], is_late: Callable[[], bool]
) -> list[Case]:
    """Return the cases, those that fail with places.

    Args:
        changed: lines by path; empty if there is no base.
        is_late: whether the time for this is spent.
    """
    failing = [case for case in cases if case.fails and case.finding is not None][:MAX_CASES]
    if not failing or is_late():
        return list(cases)
    spec = parse(target)
    tree, _ = _tree(target)
    names = {spec.family.code_file(spec, tree, path): path for path in _sources(target)}
    tapes = [tape for case in failing for tape in _with_and_without_the_last(case)]
    try:
        run = lines_run(target, tapes, list(names), lambda: not is_late())
    except TargetError:  # a case without a place is better than no case
        return list(cases)
    by_path = [{names[file]: lines for file, lines in it.items()} for it in run]
    pairs = zip(by_path[::2], by_path[1::2], strict=False)
    places = {id(case): _places(*pair, changed) for case, pair in zip(failing, pairs, strict=False)}
    return [replace(case, places=places.get(id(case), ())) for case in cases]


def _with_and_without_the_last(case: Case) -> tuple[Tape, Tape]:
    """Return the tape up to the event at which it diverges, and the same without this event."""
    assert case.finding is not None
    tape, last = case.finding.tape, case.finding.divergence.event
    events = tape.events if last < 0 else tape.events[: last + 1]
    return replace(tape, events=events[:-1]), replace(tape, events=events)


def _places(before: Lines, run: Lines, changed: Mapping[str, set[int]]) -> tuple[Place, ...]:
    hits = [
        Place(path, line, CHANGED) for path in sorted(changed) for line in sorted(changed[path] & run.get(path, set()))
    ]
    if not hits:
        reached = {path: lines - before.get(path, set()) for path, lines in run.items()}
        path = max(sorted(reached), key=lambda it: len(reached[it]), default="")
        hits = [Place(path, min(reached[path]), REACHED)] if path and reached[path] else []
    return tuple(_apart(hits)[:MAX_PLACES])


def _apart(places: Sequence[Place]) -> list[Place]:
    """Return the first place of each run of neighbouring lines."""
    kept: list[Place] = []
    last: Place | None = None
    for place in places:
        if last is None or last.path != place.path or place.line > last.line + 3:
            kept.append(place)
        last = place
    return kept

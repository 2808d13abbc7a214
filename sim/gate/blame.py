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
    failing = [case for case in cases if case.fails][:MAX_CASES]
    if not failing:
        return list(cases)
    spec = parse(target)
    tree, _ = _tree(target)
    names = {spec.family.code_file(spec, tree, path): path for path in _sources(target)}
    places = {}
    for case in failing:
        assert case.finding is not None
        if is_late():
            break
        try:
            places[id(case)] = _places(target, case.finding.tape, names, changed)
        except TargetError:  # a case without a place is better than no case
            continue
    return [replace(case, places=places.get(id(case), ())) for case in cases]


def _places(target: str, tape: Tape, names: Mapping[str, str], changed: Mapping[str, set[int]]) -> tuple[Place, ...]:
    before, last = lines_run(target, [replace(tape, events=tape.events[:-1]), tape], list(names))
    run: Lines = {names[file]: lines | last.get(file, set()) for file, lines in before.items()}
    run |= {names[file]: lines for file, lines in last.items() if names[file] not in run}
    hits = [
        Place(path, line, CHANGED) for path in sorted(changed) for line in sorted(changed[path] & run.get(path, set()))
    ]
    if not hits and last:
        file = max(sorted(last), key=lambda it: len(last[it]))
        hits = [Place(names[file], min(last[file]), REACHED)]
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

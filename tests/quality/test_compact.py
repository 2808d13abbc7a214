"""The worked example of the documentation: a method that re-packs the SWA pool, with and without its invalidation."""

from __future__ import annotations

import json
import re
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import warm

from staleloc.sim.tapes.codec import load

EXAMPLE = Path(__file__).parents[2] / "examples" / "compact"

EVENTS = str(EXAMPLE / "events.py")

GUARDS = "swa.py:SwaAllocator.compact"
"""Those of the other sites are tried elsewhere."""

Staleloc = Callable[..., tuple[int, str]]


@pytest.fixture
def staleloc(tmp_path: Path) -> Staleloc:
    """Run a command in an empty folder: its exit code, and what it says."""

    def run(*words: str) -> tuple[int, str]:
        done = warm.run(["-m", "staleloc.sim", *words], tmp_path, timeout=600)
        return done.returncode, done.stdout + done.stderr

    return run


@pytest.fixture
def patched(tmp_path: Path) -> Callable[..., str]:
    """Make a copy of the embedded target that has the method; its name as a target."""
    copy = runpy.run_path(str(EXAMPLE / "patch.py"))["copy"]
    return lambda forget=False: copy("builtin", tmp_path / "patched", forget)


def site(file: Path) -> dict[str, Any]:
    """What an audit says of the method."""
    (found,) = [it for it in json.loads(file.read_text())["sites"] if it["function"] == "SwaAllocator.compact"]
    return found


def test_without_invalidation_it_is_unguarded(patched: Callable[..., str], staleloc: Staleloc, tmp_path: Path) -> None:
    """The audit shows first a tape of four events, of which the last asks for the answer from before, and one for each
    other cache."""
    words = ("--rounds", "12", "--events", EVENTS, "--guards", GUARDS, "--json", "audit.json")
    code, said = staleloc("audit", "--target", patched(forget=True), *words)
    assert code == 1, said
    assert site(tmp_path / "audit.json")["verdict"] == "unguarded"
    saved = sorted((tmp_path / "staleloc-tapes").glob("*-stale-translation.json"))
    tapes = sorted((events_of(it) for it in saved), key=len)
    assert tapes[0] == ["alloc_extend", "translate", "compact", "translate"]
    assert all(it[-2] == "compact" for it in tapes)
    policies = re.findall("policy (\\w+)", said)
    assert (policies[0], sorted(policies)) == ("memo", ["first_layer", "memo"])
    assert "> 3  compact       re-packs the SWA pool: live pages move to its end   ← became stale" in said


def test_with_invalidation_it_is_safe(patched: Callable[..., str], staleloc: Staleloc, tmp_path: Path) -> None:
    """No tape diverges, and without its invalidation one does."""
    words = ("--rounds", "6", "--events", EVENTS, "--guards", GUARDS, "--json", "audit.json")
    code, said = staleloc("audit", "--target", patched(), *words)
    assert code == 0, said
    assert site(tmp_path / "audit.json")["verdict"] == "safe"


def test_without_the_file_it_is_found_and_not_reached(
    patched: Callable[..., str], staleloc: Staleloc, tmp_path: Path
) -> None:
    """Whatever it forgets: nobody calls it."""
    words = ("--rounds", "1", "--guards", GUARDS, "--json", "audit.json")
    code, said = staleloc("audit", "--target", patched(forget=True), *words)
    assert code == 0, said
    found = site(tmp_path / "audit.json")
    assert (found["verdict"], found["why"]) == ("unproven", "no event reached it")


def events_of(path: Path) -> list[str]:
    """The kinds of a tape's events, read with the example's file."""
    from staleloc.sim.parts import events_file

    events_file.load(EVENTS)
    try:
        return [event.kind for event in load(path).events]
    finally:
        events_file.load(None)

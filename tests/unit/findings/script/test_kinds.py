"""A script of each class of divergence, at each level: it shows a defect, and shows nothing in correct code."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from plain_run import LATER

from staleloc.models.config import Config
from staleloc.sim.core.divergence import CLASSES, Divergence
from staleloc.sim.core.event import Event
from staleloc.sim.core.tape import Tape
from staleloc.sim.findings.finding import Finding, Origin
from staleloc.sim.findings.script.script import script
from staleloc.sim.parts.allocator.events import Alloc, AllocExtend, Free
from staleloc.sim.parts.drive import play_tape
from staleloc.sim.parts.engine.events import Admit, Arrive
from staleloc.sim.parts.legality import find_violation
from staleloc.sim.tapes.codec import load
from staleloc.sim.targets.base import Scope
from staleloc.sim.targets.mutants import MUTANTS
from staleloc.sim.targets.mutants.transform import builtin_root, load_builtin, load_changed

TAPES = {path.stem: path for path in sorted((Path(__file__).parent / "tapes").glob("*.json"))}
"""Level and class -> a tape that shows a mutant of the builtin target."""

REPEATED = [name for name in TAPES if name.startswith("allocator-") and f"engine-{name.partition('-')[2]}" in TAPES]
"""Those of the allocator level whose class is shown at the engine level, too: a plain run plays every other one."""

Run = Callable[..., tuple[int, str, str]]

TOKENS = Config(policy="uncached", full_size=8, swa_size=8, window=2)
ENGINE = replace(TOKENS, level="engine")
STUCK: dict[str, tuple[str, str, Config, tuple[Event, ...]]] = {
    "allocator": ("swa", "    def free(self, ", TOKENS, (Alloc(0, 1), Free(0, 0))),
    "engine": ("engine", "    def admit(self, ", ENGINE, (Arrive(0, (1, 1)), Admit(0))),
}
"""Level -> a module of the builtin target, a function in it that the last of these events calls."""


def verdict(tape: Tape, target: Any) -> Divergence:
    profile, reason = find_violation(tape, target.profiles)
    assert profile is not None, reason
    found = play_tape(tape, target, profile).divergence
    assert found is not None
    return found


def both(found: Finding, run: Run, **environment: str) -> tuple[tuple[int, str, str], tuple[int, str, str]]:
    """What a finding's script says as it is, and with the builtin target as it is."""
    clean = replace(found, origin=replace(found.origin, target="builtin", mutant=None))
    return run(script(found), **environment), run(script(clean), **environment)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[LATER] if name in REPEATED[1::2] else []) for name in TAPES]
)
def test_a_mutant_shows_and_correct_code_does_not(name: str, run: Run) -> None:
    """The script of a mutant ends with 1, the same steps on the target as it is with 0."""
    level, _, kind = name.partition("-")
    tape = load(str(TAPES[name]))
    mutant = str((tape.provenance or {})["mutant"])
    found = verdict(tape, load_builtin(MUTANTS[mutant]))
    assert found.kind == kind
    scope = Scope(level, tape.config.features)
    (code, out, err), clean = both(Finding(Origin("builtin", mutant=mutant, tape="t", scope=scope), tape, found), run)
    assert (code, err) == (1, "")
    assert out.endswith(f"the bug shows: {kind}\n")
    assert clean == (0, "the bug does not show\n", "")


def edited(folder: Path, module: str, line: str, body: str) -> str:
    """A copy of the builtin target in which a function begins with these lines; its name as a target."""
    shutil.copytree(builtin_root(), folder, ignore=shutil.ignore_patterns("__pycache__"))
    file = folder / f"{module}.py"
    source = file.read_text(encoding="utf-8")
    at = source.index(":\n", source.index(line)) + 2
    file.write_text(f"{source[:at]}        {body}\n{source[at:]}", encoding="utf-8")
    return f"builtin@{folder}"


def test_slots_at_another_place_of_their_page(tmp_path: Path, run: Run) -> None:
    """The one class of the allocator level that no mutant shows."""
    tape = Tape(replace(TOKENS, page_size=2), (AllocExtend(((0, 1),)),))
    root = tmp_path / "copy"
    late = "return [loc + 1 for loc in self._allocator.alloc_extend(prefix_lens, seq_lens, last_locs)]"
    target = edited(root, "target", "    def alloc_extend(", late)
    found = verdict(tape, load_changed("misaligned_copy", lambda module, source: source, root=root).BuiltinTarget())
    assert found.kind == "misaligned"
    (code, out, _), clean = both(Finding(Origin(target, tape="t"), tape, found), run)
    assert (code, clean) == (1, (0, "the bug does not show\n", ""))
    assert out.endswith("the bug shows: misaligned\n")


@pytest.mark.parametrize("level", STUCK)
def test_an_event_that_never_ends(level: str, run: Run, tmp_path: Path) -> None:
    """An endless loop is noticed at its event, and is no longer seen without it."""
    module, function, config, events = STUCK[level]
    target = edited(tmp_path / "copy", module, function, "while True: pass")
    stuck = Divergence("hang", "hang", 1, f"{events[1].kind} does not come back, and uses the processor all the time")
    found = Finding(Origin(target, tape="t", scope=Scope(level)), Tape(config, events), stuck)
    (code, out, err), clean = both(found, run)
    assert (code, err) == (1, "")
    assert out.startswith(f"after step 2, {events[1].kind}(")
    assert out.endswith("the bug shows: hang\n")
    assert clean == (0, "the bug does not show\n", "")


@pytest.mark.parametrize(
    ("level", "kind", "body", "said"),
    [
        ("allocator", "hang", "__import__('time').sleep(600)", "a step did not end within 5 seconds"),
        ("engine", "hang", "__import__('time').sleep(600)", "a step did not end within 5 seconds"),
        ("allocator", "crash", "__import__('sys').exit(1)", "the process ended with exit code 1"),
        ("engine", "crash", "__import__('os').kill(__import__('os').getpid(), 9)", "the process ended with signal 9"),
    ],
)
def test_an_engine_that_takes_its_process(
    level: str, kind: str, body: str, said: str, run: Run, tmp_path: Path
) -> None:
    """A process that waits for ever, or that ends, is the bug; which step it was need not be known."""
    module, function, config, events = STUCK[level]
    target = edited(tmp_path / "copy", module, function, body)
    lost = Divergence(kind, kind, -1, "the worker was lost")
    found = Finding(Origin(target, tape="t", scope=Scope(level)), Tape(config, events), lost)
    (code, out, err), clean = both(found, run, HANG_SECONDS="5")
    assert (code, out) == (1, f"{said}\nthe bug shows: {kind}\n")
    assert ("most recent call first" in err) is (kind == "hang")
    assert clean == (0, "the bug does not show\n", "")


def test_every_class_is_tried() -> None:
    """At each level at which it occurs."""
    requests = {"race", "graph-pollution", "over-admission", "starvation", "lost-hit"}
    by_hand = {"hang", "misaligned"}
    tried = {level: {name.partition("-")[2] for name in TAPES if name.startswith(level)} for level in STUCK}
    assert tried["engine"] | {"hang"} == set(CLASSES)
    assert tried["allocator"] | by_hand == set(CLASSES) - requests

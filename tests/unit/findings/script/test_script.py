"""Stand-alone scripts: they show the bug without staleloc, and show nothing where there is none."""

import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from plain_run import LATER

from staleloc.models.config import FULL, SWA, Config
from staleloc.sim.core.divergence import Divergence
from staleloc.sim.core.tape import Tape
from staleloc.sim.findings.finding import Finding, Origin
from staleloc.sim.findings.script.helpers import lost_pages, wrong_grants, wrong_pages
from staleloc.sim.findings.script.script import script
from staleloc.sim.parts.allocator import events as ev
from staleloc.sim.parts.allocator.drive import drive
from staleloc.sim.parts.allocator.events import EVENTS
from staleloc.sim.parts.legality import find_violation
from staleloc.sim.targets.mutants import MUTANTS
from staleloc.sim.targets.mutants.transform import load_builtin
from staleloc.sim.targets.sglang.script import find_release

HYBRID = Config(policy="memo", page_size=2, full_size=8, swa_size=8, layers=(SWA,), window=4)
TOKENS = Config(policy="uncached", full_size=8, swa_size=8, layers=(FULL, SWA), window=2)
BATCH = ev.BeginForward(((0, 0, 1),))

CASES = {
    "memo-drop-invalidate-register-mapping": (
        "SWA locs: expected [4], actual [2]",
        HYBRID,
        (ev.AllocExtend(((0, 2),)), BATCH, ev.WriteKv(0), ev.RegisterMapping(0, 0, 2), ev.Translate("batch", 0, 0, 1)),
    ),
    "first-layer-drop-invalidate-set-mapping": (
        "SWA slots that the batch was written to at layer 1: expected [8], actual [0]",
        Config(pool="dsv4", policy="first_layer", page_size=4, full_size=8, swa_size=8, layers=(SWA, SWA)),
        (ev.AllocExtend(((0, 4),)), ev.FreeSwa(0, 0, 4), BATCH, ev.WriteKv(0), ev.SetMapping(0, 0, 4), ev.WriteKv(1)),
    ),
    "tail-keeps-former-owner": (
        "entries of the mapping: expected {2: 0, 3: 0}, actual {2: 2, 3: 3}",
        HYBRID,
        (ev.Backup(), ev.AllocExtend(((0, 4),)), ev.Restore(), ev.AllocExtendSwaTail(1, 4, 2)),
    ),
    "free-repeats-page": (
        "pages that are free and owned, free twice, or not in the pool: "
        "expected {'full': [], 'swa': []}, actual {'full': [1], 'swa': []}",
        HYBRID,
        (ev.AllocExtend(((0, 2),)), ev.Free(0, 0)),
    ),
    "group-resolves-late": (
        "pages that nobody owns and that are in no free list: "
        "expected {'full': [], 'swa': []}, actual {'full': [], 'swa': [1]}",
        replace(TOKENS, layers=(SWA,)),
        (
            ev.Alloc(0, 1),
            ev.FreeGroupBegin(),
            ev.FreeSwa(0, 0, 1),
            ev.SetMapping(0, 0, 1),
            ev.FreeSwa(0, 0, 1),
            ev.FreeGroupEnd(),
        ),
    ),
    "extend-runs-past-page": (
        "slots that were not free, not in the pool or not at their place in a page: expected [], actual [4]",
        HYBRID,
        (ev.AllocExtend(((0, 2), (1, 1))), ev.AllocExtend(((0, 1),))),
    ),
    "register-mapping-misses-pool": (
        "new full locs without the SWA slot that they are due: expected [], actual [2]",
        HYBRID,
        (ev.RegisterMapping(0, 0, 0), ev.AllocExtend(((1, 1),))),
    ),
    "cpu-copy-without-mask": (
        "contents of (layer, slot): expected {(0, 2): 0}, actual {(0, 2): 1}",
        HYBRID,
        (ev.AllocExtendSwaTail(0, 6, 4), BATCH, ev.WriteKv(0), ev.CpuCopy(1, 0, 0, 1), ev.LoadCpuCopy(1, 0, 2)),
    ),
    "move-in-full-pool-only": (
        "contents of (layer, slot): expected {(1, 2): 2}, actual {(1, 2): 0}",
        TOKENS,
        (ev.Alloc(0, 2), BATCH, ev.WriteKv(0), ev.WriteKv(1), ev.ReadKv(1), ev.EndForward(), ev.Move(0, 0, 1, 1)),
    ),
    "cpu-load-old-mask-only": (
        "load_cpu_copy: expected no exception, actual IndexError",
        HYBRID,
        (ev.AllocExtendSwaTail(0, 6, 4), ev.CpuCopy(0, 0, 4, 5), ev.LoadCpuCopy(0, 0, 0)),
    ),
}
"""Mutant -> the line its script prints, and a cache and events that show the mutant."""

Run = Callable[[str], tuple[int, str, str]]


def finding(mutant: str, config: Config, events: tuple[ev.Event, ...]) -> Finding:
    tape = Tape(config, events)
    target = load_builtin(MUTANTS[mutant])
    profile, reason = find_violation(tape, target.profiles)
    assert profile is not None, reason
    divergence = drive(tape, target, profile).divergence
    assert divergence is not None
    return Finding(Origin("builtin", mutant=mutant, seed=0, index=0), tape, divergence)


@pytest.mark.parametrize(
    "mutant", [pytest.param(name, marks=[LATER] if number % 2 else []) for number, name in enumerate(CASES)]
)
def test_the_bug_shows_in_a_mutant_and_not_in_the_clean_target(mutant: str, run: Run) -> None:
    line, config, events = CASES[mutant]
    found = finding(mutant, config, events)
    code, out, err = run(script(found))
    assert (code, err) == (1, "")
    assert out.startswith(line)
    assert out.endswith("the bug shows\n")
    clean = replace(found, origin=replace(found.origin, mutant=None))
    code, out, err = run(script(clean))
    assert (code, err) == (0, "")
    assert out.endswith("the bug does not show\n")


def test_an_engine_that_fails_is_not_taken_for_the_bug(run: Run) -> None:
    _, config, events = CASES["free-repeats-page"]
    text = script(finding("free-repeats-page", config, events))
    code, out, err = run(text.replace("cache.free(", "cache.no_such_call("))
    assert (code, out) == (2, "")
    assert "AttributeError" in err


EVERY_EVENT = (
    ev.Alloc(0, 4),
    ev.Alloc(1, 99),
    ev.FreeSwa(0, 0, 2),
    ev.SetMapping(0, 0, 2),
    ev.RegisterMapping(0, 1, 3),
    ev.RegisterMapping(0, 0, 0),
    ev.BeginForward(((0, 0, 4),), "view", 3, True),
    ev.WriteKv(0),
    ev.WriteKv(1),
    ev.ReadKv(0),
    ev.ReadKv(1),
    ev.Translate("batch", 0, 1, 3),
    ev.Translate("fresh", 0, 0, 2),
    ev.Translate("padded", 0, 0, 2),
    ev.Translate("view", 0, 0, 2),
    ev.EndForward(),
    ev.CpuCopy(0, 0, 0, 2),
    ev.LoadCpuCopy(0, 0, 2),
    ev.Move(0, 0, 1, 1),
    ev.FreeGroupBegin(),
    ev.Free(0, 2),
    ev.FreeGroupEnd(),
    ev.Backup(),
    ev.Alloc(1, 2),
    ev.Restore(),
    ev.Clear(),
)

EVERY_PAGED_EVENT = (
    ev.AllocExtend(((0, 1), (1, 1))),
    ev.AllocDecode((1, 0)),
    ev.AllocExtendSwaTail(2, 4, 2),
    ev.BeginForward(((2, 0, 4),), "reused"),
    ev.WriteKv(0),
    ev.ReadKv(0),
    ev.Free(2, 0),
)


def test_every_event_has_lines(run: Run) -> None:
    assert {type(event) for event in (*EVERY_EVENT, *EVERY_PAGED_EVENT)} == set(EVENTS)
    for check, config, events in (
        ("contents", replace(TOKENS, policy="side_channel"), EVERY_EVENT),
        ("conservation", replace(TOKENS, policy="side_channel"), EVERY_EVENT),
        ("availability", replace(TOKENS, policy="side_channel"), EVERY_EVENT),
        ("contents", HYBRID, EVERY_PAGED_EVENT),
    ):
        nothing = Divergence("wrong-content" if check == "contents" else "leak", check, len(events) - 1, "made up")
        code, out, err = run(script(Finding(Origin("builtin", seed=0, index=0), Tape(config, events), nothing)))
        assert (code, err) == (0, "")
        assert out.endswith("the bug does not show\n")


@pytest.mark.parametrize("kind", ["crash", "hang"])
def test_an_engine_that_never_comes_back(kind: str, run: Run) -> None:
    lost = Divergence(kind, kind, -1, "the worker exited with code 1")
    tape = Tape(TOKENS, (ev.Alloc(0, 1),))
    code, _, err = run(script(Finding(Origin("builtin", seed=0, index=0), tape, lost)))
    assert (code, err) == (0, "")


def test_helpers() -> None:
    assert wrong_pages([1, 2, 2, 0, 5], {1}, 4) == [0, 1, 2, 5]
    assert lost_pages([1], {2}, {3}, 4) == [4]
    assert wrong_grants({0: [2]}, [(0, 1, [3]), (1, 0, [4, 5])], 2, 3) == []
    assert wrong_grants({0: [2, 3]}, [(1, 0, [2]), (2, 0, [4]), (3, 0, [4]), (4, 0, [5]), (5, 1, [9])], 2, 3) == [
        2,
        4,
        5,
        9,
    ]
    assert wrong_grants({0: [4]}, [(0, 1, [3])], 2, 3) == [3]
    assert wrong_grants({}, [(0, 0, [0, 0, 2, 3])], 2, 3) == []


def test_a_wheel_is_unpacked_with_its_tree_core(tmp_path: Path) -> None:
    """Sources and the tree core in Rust are wanted; other binaries are not."""
    core = "sglang/srt/mem_cache/rust_tree_core"
    with zipfile.ZipFile(tmp_path / "sglang.whl", "w") as wheel:
        for name in (f"{core}/__init__.py", f"{core}/mem_cache.so", "sglang/big.so"):
            wheel.writestr(name, "")
    root = find_release(str(tmp_path / "sglang.whl"))
    files = {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}
    assert files == {f"{core}/__init__.py", f"{core}/mem_cache.so"}

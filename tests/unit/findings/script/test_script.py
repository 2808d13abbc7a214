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
from staleloc.sim.findings.script.script import script
from staleloc.sim.parts.allocator import events as ev
from staleloc.sim.parts.allocator.by_hand import KvCache
from staleloc.sim.parts.allocator.checks import check_contents
from staleloc.sim.parts.allocator.events import EVENTS
from staleloc.sim.parts.drive import drive
from staleloc.sim.parts.legality import find_violation
from staleloc.sim.targets.base import TargetError
from staleloc.sim.targets.builtin.target import BuiltinTarget
from staleloc.sim.targets.mutants import MUTANTS
from staleloc.sim.targets.mutants.transform import load_builtin
from staleloc.sim.targets.sglang.argument import find_release

HYBRID = Config(policy="memo", page_size=2, full_size=8, swa_size=8, layers=(SWA,), window=4)
TOKENS = Config(policy="uncached", full_size=8, swa_size=8, layers=(FULL, SWA), window=2)
BATCH = ev.BeginForward(((0, 0, 1),))

CASES = {
    "memo-drop-invalidate-register-mapping": (
        "translate(source=batch, request=0, start=0, stop=1)",
        "full loc 2 translates to 2, expected 4",
        HYBRID,
        (ev.AllocExtend(((0, 2),)), BATCH, ev.WriteKv(0), ev.RegisterMapping(0, 0, 2), ev.Translate("batch", 0, 0, 1)),
    ),
    "first-layer-drop-invalidate-set-mapping": (
        "write_kv(layer=1)",
        "full loc 4 was written at layer 1 to SWA slot 0, expected 8",
        Config(pool="dsv4", policy="first_layer", page_size=4, full_size=8, swa_size=8, layers=(SWA, SWA)),
        (ev.AllocExtend(((0, 4),)), ev.FreeSwa(0, 0, 4), BATCH, ev.WriteKv(0), ev.SetMapping(0, 0, 4), ev.WriteKv(1)),
    ),
    "tail-keeps-former-owner": (
        "alloc_extend_swa_tail(request=1, count=4, tail=2)",
        "the mapping of full loc 2 is 2, expected 0 (2 entries differ)",
        HYBRID,
        (ev.Backup(), ev.AllocExtend(((0, 4),)), ev.Restore(), ev.AllocExtendSwaTail(1, 4, 2)),
    ),
    "free-repeats-page": (
        "free(request=0, start=0)",
        "full page 1 is in the free list more than once",
        HYBRID,
        (ev.AllocExtend(((0, 2),)), ev.Free(0, 0)),
    ),
    "group-resolves-late": (
        "free_group_end()",
        "SWA slot 1 has no owner and is in no free list",
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
        "alloc_extend(items=((0, 1),))",
        "full loc 4 went to token 2 of request 0, but request 1 owns it",
        HYBRID,
        (ev.AllocExtend(((0, 2), (1, 1))), ev.AllocExtend(((0, 1),))),
    ),
    "register-mapping-misses-pool": (
        "alloc_extend(items=((1, 1),))",
        "token 0 of request 1 is due an SWA slot, and full loc 2 was mapped to none",
        HYBRID,
        (ev.RegisterMapping(0, 0, 0), ev.AllocExtend(((1, 1),))),
    ),
    "cpu-copy-without-mask": (
        "load_cpu_copy(copy=1, request=0, start=2)",
        "the copy holds no SWA row for full loc 4, but slot 2 of layer 0 was overwritten",
        HYBRID,
        (ev.AllocExtendSwaTail(0, 6, 4), BATCH, ev.WriteKv(0), ev.CpuCopy(1, 0, 0, 1), ev.LoadCpuCopy(1, 0, 2)),
    ),
    "move-in-full-pool-only": (
        "move(request=0, source=0, target=1, count=1)",
        "slot 2 of layer 1 holds nothing, expected token 0 of request 0 (layer 1, event 4)",
        TOKENS,
        (ev.Alloc(0, 2), BATCH, ev.WriteKv(0), ev.WriteKv(1), ev.ReadKv(1), ev.EndForward(), ev.Move(0, 0, 1, 1)),
    ),
    "cpu-load-old-mask-only": (
        "load_cpu_copy(copy=0, request=0, start=0)",
        "load_cpu_copy raised IndexError",
        HYBRID,
        (ev.AllocExtendSwaTail(0, 6, 4), ev.CpuCopy(0, 0, 4, 5), ev.LoadCpuCopy(0, 0, 0)),
    ),
}
"""Mutant -> the step and the fact that its script prints, and a cache and events that show the mutant."""

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
    step, fact, config, events = CASES[mutant]
    found = finding(mutant, config, events)
    code, out, err = run(script(found))
    assert (code, err) == (1, "")
    assert out.startswith(f"after step {len(events)}, {step}:\n  expected  ")
    assert f"\n  actual    {fact}" in out
    assert out.endswith(f"\nthe bug shows: {found.divergence.kind}\n")
    clean = replace(found, origin=replace(found.origin, mutant=None))
    assert run(script(clean)) == (0, "the bug does not show\n", "")


def test_an_engine_that_fails_is_not_taken_for_the_bug(run: Run) -> None:
    _, _, config, events = CASES["free-repeats-page"]
    text = script(finding("free-repeats-page", config, events))
    code, out, err = run(text.replace("cache.free(", "cache.no_such_call("))
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("not played to the end: AttributeError: no_such_call (at: cache.no_such_call(")


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


def test_every_event_can_be_called(run: Run) -> None:
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


def test_a_hang_does_not_show_in_code_that_comes_back(run: Run) -> None:
    """The step at which another target hung is one after which there is nothing to compare."""
    stuck = Divergence("hang", "hang", 1, "free does not come back")
    tape = Tape(TOKENS, (ev.Alloc(0, 1), ev.Free(0, 0)))
    text = script(Finding(Origin("builtin", seed=0, index=0), tape, stuck))
    assert run(text) == (0, "the bug does not show\n", "")


def test_what_no_scheduler_does_is_not_played() -> None:
    """A release with other contracts is not blamed for a misuse."""
    cache = KvCache(BuiltinTarget(), TOKENS, None)
    with pytest.raises(TargetError, match="free cannot be played: no live loc is freed twice"):
        cache.free(request=0, start=0)
    with pytest.raises(AttributeError):
        _ = cache.arrive


def test_every_row_is_looked_at_once_more_at_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    """An event that touches a row which it must not touch is seen where contents are what it is about."""
    for check, code in ((check_contents, 1), (None, 0)):
        target = BuiltinTarget()
        cache = KvCache(target, TOKENS, check)
        cache.alloc(request=0, count=1)
        target._pool.layer_buffers(0)[0][3] = 7
        assert cache.verdict("wrong-content", step=1) == code
    assert "slot 3 of layer 0 holds" in capsys.readouterr().out


def test_a_wheel_is_unpacked_with_its_tree_core(tmp_path: Path) -> None:
    """Sources and the tree core in Rust are wanted; other binaries are not."""
    core = "sglang/srt/mem_cache/rust_tree_core"
    with zipfile.ZipFile(tmp_path / "sglang.whl", "w") as wheel:
        for name in (f"{core}/__init__.py", f"{core}/mem_cache.so", "sglang/big.so"):
            wheel.writestr(name, "")
    root = find_release(str(tmp_path / "sglang.whl"))
    files = {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}
    assert files == {f"{core}/__init__.py", f"{core}/mem_cache.so"}

"""Stand-alone scripts for real releases: they need the release's sources and torch, and no staleloc."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import warm

from staleloc.models.config import FULL, SWA, Config
from staleloc.sim.core.tape import Tape
from staleloc.sim.findings.finding import Finding, Origin
from staleloc.sim.findings.script.script import script
from staleloc.sim.parts.allocator import events as ev
from staleloc.sim.parts.engine import events as ee
from staleloc.sim.run.player import Player
from staleloc.sim.targets.base import Scope
from staleloc.sim.targets.sglang.fetch import Release

DSV4 = Config(pool="dsv4", page_size=4, full_size=8, swa_size=8, layers=(SWA, SWA), window=4, dtype="float8_e4m3fn")
HYBRID = Config(page_size=4, full_size=16, swa_size=16, layers=(FULL, SWA), window=4)
BATCH = ev.BeginForward(((0, 0, 1),))

CASES = {
    "mapping replaced between two layers": (
        "sglang==0.5.12",
        "sglang==0.5.12.post1",
        "full loc 4 was written at layer 1 to SWA slot 4, expected 8",
        Tape(DSV4, (ev.AllocExtend(((0, 4),)), BATCH, ev.WriteKv(0), ev.RegisterMapping(0, 0, 4), ev.WriteKv(1))),
    ),
    "eviction of a part of a page": (
        "sglang==0.5.13",
        "sglang==0.5.14",
        "the mapping of full loc 5 is 5, expected 0 (3 entries differ)",
        Tape(HYBRID, (ev.AllocExtend(((0, 4),)), ev.FreeSwa(0, 0, 1))),
    ),
    "copy without a mask": (
        "sglang==0.5.11",
        "sglang==0.5.12",
        "the copy holds no SWA row for full loc 2, but slot 2 of layer 0 was overwritten",
        Tape(
            Config(full_size=2, swa_size=2, layers=(SWA,), window=1),
            (
                ev.Alloc(0, 1),
                ev.FreeSwa(0, 0, 1),
                BATCH,
                ev.WriteKv(0),
                ev.CpuCopy(0, 0, 0, 1),
                ev.Alloc(0, 1),
                ev.LoadCpuCopy(0, 0, 1),
            ),
        ),
    ),
    "second end of a free group": (
        "sglang==0.5.18",
        "sglang==0.5.23",
        "is in the free list",
        Tape(
            Config(full_size=4, swa_size=4, layers=(SWA,), window=1),
            (
                ev.Alloc(0, 1),
                ev.FreeGroupBegin(),
                ev.Free(0, 0),
                ev.FreeGroupEnd(),
                ev.Alloc(0, 4),
                ev.FreeGroupEnd(),
            ),
        ),
    ),
}
"""What happens -> a release with the bug, one without, the fact that a script prints, and a tape."""


Run = Callable[[str, Path], subprocess.CompletedProcess[str]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run a script on a release in an empty folder, in an interpreter that cannot import staleloc."""

    def call(text: str, root: Path) -> subprocess.CompletedProcess[str]:
        path = tmp_path / "repro.py"
        path.write_text(text, encoding="utf-8")
        (tmp_path / "empty").mkdir(exist_ok=True)
        return warm.run([str(path), str(root)], tmp_path / "empty", without="staleloc")

    return call


def found(spec: str, tape: Tape) -> Finding:
    """What a release does with a tape on which it diverges."""
    with Player(spec) as player:
        divergence = player.play(tape)
    assert divergence is not None
    return Finding(Origin(spec, seed=0, index=0, scope=Scope(tape.config.level)), tape, divergence)


def gives_up(done: subprocess.CompletedProcess[str], *words: str) -> bool:
    """Whether a script ended with exit code 2 and one line with these words."""
    line = done.stderr
    return (done.returncode, line.count("\n")) == (2, 1) and all(word in line for word in words)


@pytest.mark.parametrize("case", CASES)
def test_a_script_tells_two_releases_apart(case: str, available: Callable[[str], Release], run: Run) -> None:
    """It shows the bug in one, and nothing in one that has the fix."""
    faulty, fixed, line, tape = CASES[case]
    roots = {spec: available(spec).root for spec in (faulty, fixed)}
    finding = found(faulty, tape)
    text = script(finding)
    shown = run(text, roots[faulty])
    assert (shown.returncode, shown.stderr) == (1, "")
    assert line in next(it for it in shown.stdout.splitlines() if it.startswith("  actual    "))
    assert shown.stdout.endswith(f"the bug shows: {finding.divergence.kind}\n")
    silent = run(text, roots[fixed])
    assert (silent.returncode, silent.stderr) == (0, "")
    assert silent.stdout.endswith("the bug does not show\n")


def test_a_release_that_does_not_fit_is_one_line(available: Callable[[str], Release], run: Run, tmp_path: Path) -> None:
    """Nowhere, in a file that is no wheel, in an empty cache layer or behind other calls: no verdict, one line."""
    faulty, _, _, tape = CASES["eviction of a part of a page"]
    text, other = script(found(faulty, tape)), available("sglang==0.5.23").root
    hollow, wheel = tmp_path / "hollow", tmp_path / "sglang.whl"
    (hollow / "sglang" / "srt" / "mem_cache").mkdir(parents=True)
    wheel.write_text("no wheel")
    made_for = "this script was made for sglang==0.5.13"
    assert gives_up(run(text, tmp_path / "nowhere"), "nowhere holds no sglang/srt/mem_cache", made_for)
    assert gives_up(run(text, tmp_path / "no.whl"), "no.whl cannot be read as a wheel")
    assert gives_up(run(text, wheel), "sglang.whl cannot be read as a wheel")
    assert gives_up(run(text, hollow), "No module named 'sglang.srt.mem_cache.swa_memory_pool'", made_for)
    fits = run(text, other)
    assert (fits.returncode, fits.stdout, fits.stderr) == (0, "the bug does not show\n", "")
    _, _, _, mid_forward = CASES["mapping replaced between two layers"]
    text = script(found("sglang==0.5.12", mid_forward))
    assert gives_up(run(text, other), "this release has no dsv4 pool that is driven at the level of the allocator")


WRITE_BACK = Tape(
    Config(level="engine", full_size=2, swa_size=2, layers=(SWA,), window=2, host_full_size=128, host_swa_size=64,
           write_policy="write_back"),
    (
        *(ee.Arrive(0, (1, 1)), ee.Admit(0), ee.Prefill(0, 2), ee.Checkpoint(0), ee.Finish(0)),
        *(ee.Arrive(0, (2, 2)), ee.Admit(0), ee.Prefill(0, 1)),
    ),
)  # fmt: skip
"""Device slots are free before they are copied to the host (PR 27108): 0.5.12."""


def test_a_script_of_whole_requests_tells_releases_apart(available: Callable[[str], Release], run: Run) -> None:
    """Our adapter comes along; what it cannot drive gives one line."""
    finding = found("sglang==0.5.12", WRITE_BACK)
    text = script(finding)
    assert text == script(finding)
    shown = run(text, available("sglang==0.5.12").root)
    assert (shown.returncode, shown.stderr) == (1, "")
    assert shown.stdout.startswith(
        "after step 8, prefill(request=0, count=1):\n"
        "  expected  Owners: every slot of every pool is free, a node's, a request's own, or in flight, and only one "
        "of these.\n"
        "  actual    SWA page 2 is in the free list while a transfer still uses it\n"
    )
    assert shown.stdout.endswith("the bug shows: race\n")
    fixed = run(text, available("sglang==0.5.13").root)
    assert (fixed.returncode, fixed.stdout, fixed.stderr) == (0, "the bug does not show\n", "")
    other_core = run(text, available("sglang==0.5.23").root)
    assert (other_core.returncode, other_core.stderr) == (0, "")
    assert other_core.stdout == "policy native is played as python-core\nthe bug does not show\n"
    hostless = run(text, available("sglang==0.5.11").root)
    assert gives_up(hostless, "no host tier", "this script was made for sglang==0.5.12")

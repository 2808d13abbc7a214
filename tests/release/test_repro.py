"""Stand-alone scripts for real releases: they need the release's sources and torch, and no staleloc."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from staleloc.models.config import FULL, SWA, Config
from staleloc.sim import events as ev
from staleloc.sim.finding import Finding, Origin
from staleloc.sim.judge import Player
from staleloc.sim.repro import script
from staleloc.sim.tape import Tape
from staleloc.sim.targets.sglang.fetch import Release

WITHOUT_US = """
import runpy, sys
sys.modules["staleloc"] = None
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""

DSV4 = Config(pool="dsv4", page_size=4, full_size=8, swa_size=8, layers=(SWA, SWA), window=4, dtype="float8_e4m3fn")
HYBRID = Config(page_size=4, full_size=16, swa_size=16, layers=(FULL, SWA), window=4)
BATCH = ev.BeginForward(((0, 0, 1),))

CASES = {
    "mapping replaced between two layers": (
        "sglang==0.5.12",
        "sglang==0.5.12.post1",
        "SWA slots that the batch was written to at layer 1: expected [8], actual [4]",
        Tape(DSV4, (ev.AllocExtend(((0, 4),)), BATCH, ev.WriteKv(0), ev.RegisterMapping(0, 0, 4), ev.WriteKv(1))),
    ),
    "eviction of a part of a page": (
        "sglang==0.5.13",
        "sglang==0.5.14",
        "entries of the mapping: expected {5: 0, 6: 0, 7: 0}, actual {5: 5, 6: 6, 7: 7}",
        Tape(HYBRID, (ev.AllocExtend(((0, 4),)), ev.FreeSwa(0, 0, 1))),
    ),
    "copy without a mask": (
        "sglang==0.5.11",
        "sglang==0.5.12",
        "contents of (layer, slot): expected {(0, 2): 0}, actual {(0, 2): 1}",
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
        "pages that are free and owned, free twice, or not in the pool: expected {'full': [], 'swa': []}, actual",
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
"""What happens -> a release with the bug, one without, the line a script prints, and a tape."""


@pytest.mark.parametrize("case", CASES)
def test_a_script_tells_two_releases_apart(case: str, available: Callable[[str], Release], tmp_path: Path) -> None:
    faulty, fixed, line, tape = CASES[case]
    roots = {spec: available(spec).root for spec in (faulty, fixed)}
    with Player(faulty) as player:
        divergence = player.play(tape)
    assert divergence is not None
    path = tmp_path / "repro.py"
    path.write_text(script(Finding(Origin(faulty, seed=0, index=0), tape, divergence)), encoding="utf-8")
    (tmp_path / "empty").mkdir()

    def run(root: Path) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-I", "-c", WITHOUT_US, str(path), str(root)]
        return subprocess.run(
            command, capture_output=True, text=True, check=False, cwd=tmp_path / "empty", timeout=120, encoding="utf-8"
        )

    shown = run(roots[faulty])
    assert (shown.returncode, shown.stderr) == (1, "")
    assert shown.stdout.startswith(line)
    assert run(tmp_path).returncode == 2
    silent = run(roots[fixed])
    assert (silent.returncode, silent.stderr) == (0, "")
    assert silent.stdout.endswith("the bug does not show\n")

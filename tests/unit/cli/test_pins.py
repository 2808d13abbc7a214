"""``--config``: every random tape has the fields, and the line that plays it again says them."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import warm

from staleloc.sim.tapes.codec import load

Run = Callable[..., subprocess.CompletedProcess[str]]

SHORT = ("--tapes", "4", "--workers", "1")


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run a command in an empty folder."""

    def call(*words: str) -> subprocess.CompletedProcess[str]:
        return warm.run(["-m", "staleloc.sim", *words], tmp_path)

    return call


def test_the_command_of_a_report_has_the_pins(run: Run, tmp_path: Path) -> None:
    """Played, it gives the same report; the saved tape says them too."""
    pins = "page_size=4,window=6,need_sort=on"
    words = ("fuzz", "--mutant", "finish-inserts-nothing", "--first", *SHORT)
    found = run(*words, "--config", pins)
    assert (found.returncode, f"--config page_size=4,window=6,need_sort=on {words[1]}" in found.stdout) == (1, True)
    (saved,) = (tmp_path / "staleloc-tapes").iterdir()
    assert (load(saved).provenance or {})["config"] == pins
    (again,) = [line.partition("run again: staleloc ")[2] for line in found.stdout.splitlines() if "run again" in line]
    assert run(*again.split()).stdout.splitlines()[:2] == found.stdout.splitlines()[:2]


def test_a_field_of_whole_requests_implies_their_level(run: Run) -> None:
    """As --features does."""
    told = run("fuzz", "--config", "host=on,page_size=64", *SHORT).stdout
    assert "host_hit" in told


def test_the_gate_and_coverage_leave_out_what_cannot_have_them(run: Run) -> None:
    """The gate says so; both end with 2 if nothing is left."""
    gate = run("ci", "--target", "builtin", "--config", "chunk=16,prefix_cache=off", "--tapes", "1", "--workers", "1")
    assert (gate.returncode, "not tested, because their tapes cannot have chunk=16" in gate.stderr) == (0, True)
    assert "with scheduler and chunk=16,prefix_cache=off" in gate.stdout
    for command in ("ci", "coverage"):
        none = run(command, "--target", "builtin", "--config", "page_size=3", "--tapes", "1", "--workers", "1")
        assert (none.returncode, "builtin has no page_size=3: it is one of 1, 2" in none.stderr) == (2, True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--config", "pages=4"), "a config has no field 'pages'; did you mean page_size?"),
        (("--config", "host=on", "--level", "allocator"), "add --level engine"),
        (("--server-args", "--page-size 4"), "the flags of a server of builtin are not known here"),
        (("--server-args", "--page-size 4", "--level", "allocator"), "leave out --level allocator"),
        (("--config", "page_size=3"), "builtin at the allocator level has no page_size=3: it is one of 1"),
    ],
)
def test_what_cannot_be_pinned_is_said_in_one_line(run: Run, words: tuple[str, ...], said: str) -> None:
    """With exit code 2."""
    failed = run("fuzz", *words, *SHORT)
    assert (failed.returncode, said in failed.stderr, failed.stderr.count("\n")) == (2, True, 1)


def test_a_servers_flags_become_options(run: Run) -> None:
    """They are printed, so that a report's command needs no flags; --config and --features come first."""
    flags = "--page-size 64 --enable-hierarchical-cache --hicache-write-policy write_back --tp 8 --context-length 99999"
    words = ("fuzz", "--target", "sglang==0.5.23", "--server-args", flags, "--features", "spec")
    told = run(*words, "--config", "page_size=4,host=off,window=9", "--tapes", "1", "--workers", "1")
    assert told.stdout.splitlines()[:3] == [
        "the server's flags: --level engine --features spec --config page_size=4,window=9,context_len=479,host=off",
        "  scaled, as tapes are short (--config keeps a value): --context-length 99999 to context_len=479",
        "  ignored: --tp (not about the KV cache)",
    ]

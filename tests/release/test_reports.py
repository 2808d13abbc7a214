"""Draft reports: each script prints what its report says on a release that has the bug, and nothing of the kind on one
without it, or on the same one with the fix that the report suggests. STALELOC_LONG=1 runs them on more releases."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from staleloc.sim.scenarios import find_scenario
from staleloc.sim.targets.sglang.fetch import Release

REPORTS = Path(__file__).parents[2] / "docs" / "reports"

DECODE = "sglang.srt.disaggregation.decode"

BUDGET = "SWA; the tree can give up 2 and 2; budget: 3; the prompt has 2 tokens, and 1 is reserved"

WHOLE_TAIL = {
    DECODE: [
        "max(total_prefix_len, seq_len - window_size)",
        "max(total_prefix_len, seq_len - self._swa_tail_len(seq_len))",
    ]
}
"""The sender is told of all that was allocated."""

BOTH_POOLS = {
    DECODE: [
        "and self._radix_full_available() < required_alloc_tokens",
        "and self.token_to_kv_pool_allocator.available_size() < required_alloc_tokens",
        "EvictParams(num_tokens=num_to_evict)",
        "EvictParams(num_tokens=num_to_evict, swa_num_tokens=required_alloc_tokens"
        " - self.token_to_kv_pool_allocator.swa_available_size())",
    ]
}
"""SWA slots are asked for, too."""

SHOWN = {
    "unsent-page-before-the-window": ["0.5.19", "0.5.23"],
    "unsent-rows-before-the-window": ["0.5.19", "0.5.23"],
    "pr29662-evicts-full-tokens-only": ["0.5.23"],
    "pr27770-lock-beyond-the-prefix": ["0.5.19", "0.5.21"],
    "unsent-freed-before-the-move": ["0.5.11", "0.5.12.post1"],
    "pr28614-write-back-without-room": ["0.5.15", "0.5.16"],
}
"""Report -> releases on which its script prints what it says; the last is the newest that has the bug."""

LATER = pytest.mark.skipif(not os.environ.get("STALELOC_LONG"), reason="STALELOC_LONG=1 runs scripts on more releases")

EACH = [
    pytest.param(name, version, marks=[] if version == versions[-1] else [LATER])
    for name, versions in SHOWN.items()
    for version in versions
]

QUIET = {
    "unsent-page-before-the-window": (
        "0.5.23",
        WHOLE_TAIL,
        "16 tokens: SWA slots from token 8 on, sent from token 8 on",
    ),
    "unsent-rows-before-the-window": ("0.5.23", WHOLE_TAIL, "kept and never written: []"),
    "pr29662-evicts-full-tokens-only": ("0.5.23", BOTH_POOLS, f"free: 2 full, 1 {BUDGET}\nallocated"),
    "pr27770-lock-beyond-the-prefix": ("0.5.22", {}, "locked: 16; the request needs 32, and has 32"),
}
"""Report -> a release, what is changed in it, and how the script's output ends then. The others do it both ways."""


def probed(spec: str, what: str, edits: dict[str, list[str]]) -> str:
    words = [str(Path(__file__).with_name("report_probe.py")), spec, what, json.dumps(edits)]
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.rstrip()


def printed(spec: str, name: str, edits: dict[str, list[str]]) -> str:
    return probed(spec, str(REPORTS / f"{name}.py"), edits)


@pytest.mark.parametrize(("name", "version"), EACH)
def test_a_script_prints_what_its_report_says(available: Callable[[str], Release], name: str, version: str) -> None:
    """Word for word."""
    available(f"sglang=={version}")
    report = (REPORTS / f"{name}.md").read_text(encoding="utf-8")
    assert f"```\n{printed(f'sglang=={version}', name, {})}\n```" in report


@pytest.mark.parametrize("name", QUIET)
def test_a_script_is_quiet_where_the_bug_is_not(available: Callable[[str], Release], name: str) -> None:
    """So it shows the bug, and not how the script was made."""
    version, edits, ends = QUIET[name]
    available(f"sglang=={version}")
    text = printed(f"sglang=={version}", name, edits)
    assert text.endswith(ends)
    assert "nobody writes" not in text


@pytest.mark.parametrize("version", [pytest.param("0.5.19", marks=LATER), "0.5.23"])
def test_a_resume_comes_to_the_unsent_page_when_all_is_sent(available: Callable[[str], Release], version: str) -> None:
    """So it is a bug of its own, which telling the sender of the whole tail does not mend."""
    available(f"sglang=={version}")
    lost = r"wrong-content at event 12: .*, which request 0 resumed without"
    for edits in ({}, WHOLE_TAIL):
        assert re.fullmatch(lost, probed(f"sglang=={version}", "unsent-page-after-a-resume", edits))
    assert probed(f"sglang=={version}", "unsent-page-before-the-window", WHOLE_TAIL) == "silent"


def test_a_report_is_about_a_scenario_and_the_findings_lead_to_it() -> None:
    """One text and one script each, and a line in the list."""
    assert {path.stem for path in REPORTS.glob("*.md")} == set(SHOWN)
    assert {path.stem for path in REPORTS.glob("*.py")} - {"run"} == set(SHOWN)
    findings = (REPORTS.parent / "FINDINGS.md").read_text(encoding="utf-8")
    assert set(re.findall(r"\(reports/(\S+)\.md\)", findings)) == set(SHOWN)
    for name, versions in SHOWN.items():
        known = find_scenario(name)
        assert known is not None
        assert f"sglang=={versions[-1]}" in known.diverges

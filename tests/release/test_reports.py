"""Draft reports: each script shows its bug on a release that has it, in its report's words, and none on one without it,
or on the same one with the fix that the report suggests. STALELOC_LONG=1 runs them on more releases."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import warm
from plain_run import LATER

from staleloc.sim.tapes.scenarios import find_scenario
from staleloc.sim.targets.sglang.fetch import Release

REPORTS = Path(__file__).parents[2] / "docs" / "reports"

DECODE = "sglang.srt.disaggregation.decode"

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

TRIED_ONCE = {
    "sglang.srt.mem_cache.unified_cache_components.swa_component": [
        "                if not lru.in_list(x_next):\n                    x_next = lru.get_lru_no_lock()",
        "                if not lru.in_list(x_next):\n"
        "                    x_next = None if lru.in_list(x) else lru.get_lru_no_lock()",
    ]
}
"""An eviction ends at a leaf with which nothing was done."""

INSERTED_PATH = {
    "sglang.srt.mem_cache.unified_radix_cache": [
        "new_last_node = match_result.last_device_node\n"
        "        new_indices = self.path_device_indices(new_last_node)\n"
        "        new_prefix_len = result.prefix_len\n"
        "        assert",
        "new_last_node = result.last_device_node\n"
        "        new_indices = self.path_device_indices(new_last_node)\n"
        "        new_prefix_len = result.prefix_len\n"
        "        assert",
    ]
}
"""What was inserted is not matched again."""

NO_BRANCH = {
    "sglang.srt.mem_cache.unified_cache.components.swa": [
        "branching_seqlen = req.swa_branching_seqlen",
        "branching_seqlen = None if is_finished else req.swa_branching_seqlen",
    ]
}
"""A request that has ended branches nowhere."""

EVERY_PAGE_SIZE = {
    "sglang.srt.mem_cache.allocation_sizing": ["if page_size > 1 or spec_algo.is_uno():", "if True:"],
}
"""Rows have room for a step's reserve."""

SHOWN = {
    "unsent-page-before-the-window": ["0.5.19", "0.5.23"],
    "unsent-rows-before-the-window": ["0.5.19", "0.5.23"],
    "pr29662-evicts-full-tokens-only": ["0.5.19", "0.5.23"],
    "unsent-window-of-a-pair-key": ["0.5.22"],
    "unsent-branch-of-an-aborted-request": ["0.5.22"],
    "pr27770-lock-beyond-the-prefix": ["0.5.19", "0.5.21"],
    "unsent-freed-before-the-move": ["0.5.11", "0.5.12.post1"],
    "pr28614-write-back-without-room": ["0.5.15", "0.5.16"],
    "unsent-row-of-a-draft": ["0.5.22", "0.5.23"],
}
"""Report -> releases on which its script shows the bug; the last is the newest that has it."""

END_TO_END = {"pr29662-evicts-full-tokens-only": "0.5.23", "pr27770-lock-beyond-the-prefix": "0.5.21"}
"""Report -> a release on which its second script, with a pool, an allocator and a tree that are real, shows the bug."""

EACH = [
    pytest.param(name, name, version, marks=[] if version == versions[-1] else [LATER])
    for name, versions in SHOWN.items()
    for version in versions
] + [pytest.param(name, f"{name}-end-to-end", version, marks=LATER) for name, version in END_TO_END.items()]

QUIET: dict[str, tuple[str, dict[str, list[str]]]] = {
    "unsent-page-before-the-window": ("0.5.23", WHOLE_TAIL),
    "unsent-rows-before-the-window": ("0.5.23", WHOLE_TAIL),
    "pr29662-evicts-full-tokens-only": ("0.5.23", BOTH_POOLS),
    "pr29662-evicts-full-tokens-only-end-to-end": ("0.5.23", BOTH_POOLS),
    "unsent-window-of-a-pair-key": ("0.5.23", {}),
    "unsent-branch-of-an-aborted-request": ("0.5.23", {}),
    "pr27770-lock-beyond-the-prefix": ("0.5.22", {}),
    "pr27770-lock-beyond-the-prefix-end-to-end": ("0.5.22", {}),
    "pr28614-write-back-without-room": ("0.5.16", TRIED_ONCE),
    "unsent-row-of-a-draft": ("0.5.23", EVERY_PAGE_SIZE),
}
"""Script -> a release, and what is changed in it so that the bug is gone, if it is not."""

COMPARED = re.compile(r"(^|[:;] )expected (?P<expected>.+), got (?P<got>.+)$")
"""How a script's last line ends."""


def compared(text: str) -> dict[str, str]:
    """What was expected and what came, by the last line of a script."""
    found = COMPARED.search(text.splitlines()[-1])
    assert found is not None
    return found.groupdict()


def python(*words: str) -> subprocess.CompletedProcess[str]:
    return warm.run(words)


def probed(spec: str, what: str, edits: dict[str, list[str]]) -> tuple[int, str]:
    """Exit code and output of a script, or of the play of a scenario, on a release with changes."""
    done = python(str(Path(__file__).with_name("report_probe.py")), spec, what, json.dumps(edits))
    assert not done.stderr, done.stderr[-3000:]
    return done.returncode, done.stdout.rstrip()


def run(version: str, name: str) -> subprocess.CompletedProcess[str]:
    """As a report says that its script is run."""
    return python(str(REPORTS / "run.py"), version, str(REPORTS / f"{name}.py"))


@pytest.mark.parametrize(("report", "script", "version"), EACH)
def test_a_script_shows_its_bug(available: Callable[[str], Release], report: str, script: str, version: str) -> None:
    """It prints what its report says, word for word, says what is expected, and ends with 1."""
    available(f"sglang=={version}")
    done = run(version, script)
    assert (done.returncode, done.stderr) == (1, "")
    assert f"```\n{done.stdout}```" in (REPORTS / f"{report}.md").read_text(encoding="utf-8")
    said = compared(done.stdout)
    assert said["expected"] != said["got"]


@pytest.mark.parametrize("script", [pytest.param(it, marks=LATER if it.endswith("end-to-end") else []) for it in QUIET])
def test_a_script_is_quiet_where_the_bug_is_not(available: Callable[[str], Release], script: str) -> None:
    """So it shows the bug, and not how the script was made: what it got is what is expected, and it ends with 0."""
    version, edits = QUIET[script]
    available(f"sglang=={version}")
    code, text = probed(f"sglang=={version}", str(REPORTS / f"{script}.py"), edits)
    said = compared(text)
    assert (code, said["got"]) == (0, said["expected"])


def test_moved_first_and_freed_then_is_right(available: Callable[[str], Release], tmp_path: Path) -> None:
    """The order that the report suggests is another order of the script's own calls."""
    available("sglang==0.5.12.post1")
    text = (REPORTS / "unsent-freed-before-the-move.py").read_text(encoding="utf-8")
    freed, moved = "allocator.free(full[4:])\n", "pool.move_kv_cache(full[2:4], full[[2, 4]])\n"
    assert freed + moved in text
    (tmp_path / "script.py").write_text(text.replace(freed + moved, moved + freed), encoding="utf-8")
    code, printed = probed("sglang==0.5.12.post1", str(tmp_path / "script.py"), {})
    assert (code, printed.endswith("expected [4.0, 4.0], got [4.0, 4.0]")) == (0, True)


def test_a_release_that_a_script_does_not_fit_is_told_in_one_line(available: Callable[[str], Release]) -> None:
    """With 2, which is neither that the bug shows nor that it does not; so is a script that is not there."""
    available("sglang==0.5.17")
    done = run("0.5.17", "pr28614-write-back-without-room")
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(
        r"run\.py: \S+ does not fit sglang 0\.5\.17: ModuleNotFoundError: No module named 'sglang\.\S+'\n", done.stderr
    )
    done = run("0.5.17", "none")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)


def test_a_script_that_ends_otherwise_says_nothing_of_the_bug(
    available: Callable[[str], Release], tmp_path: Path
) -> None:
    """Python would make a 1 of a text."""
    available("sglang==0.5.17")
    script = tmp_path / "it.py"
    script.write_text("raise SystemExit('no GPU')\n", encoding="utf-8")
    done = python(str(REPORTS / "run.py"), "0.5.17", str(script))
    assert (done.returncode, done.stderr) == (2, f"run.py: {script} ended with 'no GPU', not with 0 or 1\n")


@pytest.mark.parametrize("version", [pytest.param("0.5.19", marks=LATER), "0.5.23"])
def test_a_resume_comes_to_the_unsent_page_when_all_is_sent(available: Callable[[str], Release], version: str) -> None:
    """So it is a bug of its own, which telling the sender of the whole tail does not mend."""
    available(f"sglang=={version}")
    lost = r"wrong-content at event 12: .*, which request 0 resumed without"
    for edits in ({}, WHOLE_TAIL):
        _, text = probed(f"sglang=={version}", "unsent-page-after-a-resume", edits)
        assert re.fullmatch(lost, text)
    assert probed(f"sglang=={version}", "unsent-page-before-the-window", WHOLE_TAIL) == (0, "silent")


@pytest.mark.parametrize("edits", [INSERTED_PATH, NO_BRANCH], ids=["inserted-path", "no-branch"])
def test_either_change_keeps_an_aborted_request_from_its_branch(
    available: Callable[[str], Release], edits: dict[str, list[str]]
) -> None:
    """Each alone, in the release that has the bug: the script and the whole path are quiet."""
    available("sglang==0.5.22")
    name = "unsent-branch-of-an-aborted-request"
    assert probed("sglang==0.5.22", str(REPORTS / f"{name}.py"), edits)[0] == 0
    assert probed("sglang==0.5.22", name, edits) == (0, "silent")


@pytest.mark.parametrize("name", SHOWN)
def test_a_report_says_how_to_run_its_script(name: str) -> None:
    """On the newest release that has the bug, installed or not."""
    text = (REPORTS / f"{name}.md").read_text(encoding="utf-8")
    newest = SHOWN[name][-1]
    assert f"`pip install sglang=={newest}` and `python {name}.py`" in text
    assert f"`python docs/reports/run.py {newest} docs/reports/{name}.py`" in text


def test_a_report_is_about_a_scenario_and_the_findings_lead_to_it() -> None:
    """One text and one script each, some with a longer one, and a line in the list."""
    assert {path.stem for path in REPORTS.glob("*.md")} == set(SHOWN)
    longer = {f"{name}-end-to-end" for name in END_TO_END}
    assert {path.stem for path in REPORTS.glob("*.py")} == {"run"} | set(SHOWN) | longer
    findings = (REPORTS.parent / "FINDINGS.md").read_text(encoding="utf-8")
    assert set(re.findall(r"\(reports/(\S+)\.md\)", findings)) == set(SHOWN)
    for name, versions in SHOWN.items():
        known = find_scenario(name)
        assert known is not None
        assert f"sglang=={versions[-1]}" in known.diverges

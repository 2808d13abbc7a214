"""Blind fuzzing finds shipped bugs from the events alone: no scenario, no hint, a fixed seed and number of tapes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from plain_run import LATER, LONG

from staleloc.sim.findings.finding import Origin
from staleloc.sim.findings.search import find
from staleloc.sim.run.campaign import Budget, Campaign
from staleloc.sim.targets.base import Scope
from staleloc.sim.targets.sglang.fetch import Release

SHIPPED: dict[str, dict[str, tuple[set[str], set[str]]]] = {
    "sglang==0.5.11": {
        "PR 24036, CPU copy without a mask": ({"mask-asymmetry"}, {"cpu_copy", "load_cpu_copy", "free_swa"}),
        "PR 24138, side channel outlives its batch": ({"stale-translation"}, {"begin_forward", "write_kv"}),
        "PR 27779, partial page eviction": ({"wrong-mapping"}, {"free_swa"}),
    },
    "sglang==0.5.12": {
        "PR 25889, replaced mapping": ({"stale-translation"}, {"register_mapping", "write_kv"}),
        "PR 25889, mapping changed in place": ({"stale-translation"}, {"set_mapping", "write_kv"}),
        "PR 25805, tail over recycled pages": ({"wrong-mapping"}, {"alloc_extend_swa_tail", "restore"}),
        "PR 24138, side channel outlives its batch": ({"stale-translation"}, {"begin_forward", "write_kv"}),
        "PR 27779, partial page eviction": ({"wrong-mapping"}, {"free_swa"}),
    },
    "sglang==0.5.18": {
        "PR 36081, deferred free_swa": ({"use-after-free"}, {"free_swa", "set_mapping", "free_group_end"}),
        "PR 36739, second group end": ({"double-free", "use-after-free", "crash"}, {"free", "free_group_end"}),
    },
}
"""Release -> incident -> classes it may show as, and kinds of events that the minimal tape holds."""


@pytest.mark.parametrize(
    "target", [pytest.param(it, marks=[LATER] if it == "sglang==0.5.11" else []) for it in SHIPPED]
)
def test_shipped_bugs_are_found_blind(target: str, available: Callable[[str], Release]) -> None:
    """A campaign finds each known bug of the release and shrinks it to at most eight events."""
    available(target)
    outcome = find(Origin(target, seed=0), Budget(tapes=2500 if LONG else 400), workers=1)
    for incident, (classes, needed) in SHIPPED[target].items():
        sizes = [
            len(finding.tape.events)
            for finding in outcome.findings
            if finding.divergence.kind in classes and needed <= {event.kind for event in finding.tape.events}
        ]
        assert sizes, f"{incident} was not found; found were {[f.signature for f in outcome.findings]}"
        assert min(sizes) <= 8, incident


@pytest.mark.parametrize("target", [pytest.param("sglang==0.5.19", marks=LATER), "sglang==0.5.23"])
def test_fixed_releases_are_silent(target: str, available: Callable[[str], Release]) -> None:
    """On releases with all known fixes of the allocators and pools the same campaign finds nothing."""
    available(target)
    assert find(Origin(target, seed=0), Budget(tapes=1000 if LONG else 200), workers=1).findings == []


SHIPPED_ENGINE: dict[str, tuple[int, int, dict[str, tuple[str, str]]]] = {
    "sglang==0.5.12": (
        0,
        32,
        {
            "PR 24585, write-back frees before the copy": ("race", "owners"),
            "PR 29352, recovery takes running slots": ("use-after-free", "owners"),
        },
    ),
    "sglang==0.5.13": (4, 48, {"PR 26728, load-back drops its source": ("crash", "crash")}),
    "sglang==0.5.14": (0, 16, {"PR 29352, recovery takes running slots": ("use-after-free", "owners")}),
    "sglang==0.5.16": (0, 48, {"PR 28614, write-back without room on the host": ("hang", "hang")}),
    "sglang==0.5.18": (
        9,
        64,
        {
            "PR 36848, ack takes another lock": ("use-after-free", "locks"),
            "PR 35931, second load-back": ("crash", "crash"),
        },
    ),
}
"""Release -> seed, tapes, and incident -> class and check it shows as. Nothing is shrunk: that costs more than the
search."""

REPEATED = ("sglang==0.5.13", "sglang==0.5.14")
"""Releases whose bugs show as those of another release do."""


@pytest.mark.parametrize("target", [pytest.param(it, marks=[LATER] if it in REPEATED else []) for it in SHIPPED_ENGINE])
def test_shipped_bugs_of_the_engine_are_found_blind(target: str, available: Callable[[str], Release]) -> None:
    """A campaign over whole requests finds each known bug of the release's tree and host tier."""
    available(target)
    seed, tapes, incidents = SHIPPED_ENGINE[target]
    found = Campaign(target, seed, Budget(tapes=tapes), workers=1, scope=Scope("engine")).run().found
    shown = {(one.divergence.kind, one.divergence.check) for one in found}
    assert set(incidents.values()) <= shown


@pytest.mark.parametrize("target", ["sglang==0.5.23"])
def test_fixed_engines_are_silent(target: str, available: Callable[[str], Release]) -> None:
    """On releases with all known fixes the same search finds nothing, on either tree core."""
    available(target)
    assert Campaign(target, 0, Budget(tapes=96 if LONG else 24), workers=1, scope=Scope("engine")).run().found == []

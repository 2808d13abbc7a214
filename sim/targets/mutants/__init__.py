"""Every mutant by name. Each has a defect that real code had, and shows on legal tapes."""

from __future__ import annotations

from collections.abc import Iterable

from .allocator import ALLOCATION, CONTENTS, FORGOTTEN, KEYS, RELEASE
from .decode_node import BUDGETS, COMBINED, COPIES, SLOTS
from .hits import LOST_HITS
from .host import BACKUPS, EVICTIONS, LOAD_BACKS
from .overlap import OVERLAPS
from .requests import INSERTIONS, REQUESTS, TREES
from .results import RESULTS
from .scheduler import SCHEDULES
from .sglang import ENGINE, SGLANG_HOSTS, SGLANG_RESULTS, SGLANG_SPECS, SGLANG_TREES
from .sglang_node import SGLANG_BUDGETS, SGLANG_COPIES, SGLANG_SLOTS
from .sglang_overlap import SGLANG_OVERLAPS
from .sglang_pools import SGLANG_GROUPS, SGLANG_POOLS
from .sglang_schedule import SGLANG_SCHEDULES
from .sglang_trees import SGLANG_LOCKS, SGLANG_NODES, SGLANG_TIERS
from .speculative import ACCEPTED, DRAFTS, GRAPHS, RESERVES, SPEC_GRAPHS
from .transform import Mutant

__all__ = ["MUTANTS"]


def _by_name(mutants: Iterable[Mutant]) -> dict[str, Mutant]:
    named: dict[str, Mutant] = {}
    for mutant in mutants:
        assert mutant.name not in named, f"two mutants are called {mutant.name}"
        named[mutant.name] = mutant
    return named


MUTANTS: dict[str, Mutant] = _by_name(
    (
        *(*FORGOTTEN, *KEYS, *ALLOCATION, *RELEASE, *CONTENTS, *ENGINE),
        *(*REQUESTS, *TREES, *INSERTIONS, *EVICTIONS, *BACKUPS, *LOAD_BACKS, *RESULTS),
        *(*BUDGETS, *SLOTS, *COPIES, *GRAPHS),
        *(*DRAFTS, *ACCEPTED, *RESERVES, *SPEC_GRAPHS, *COMBINED),
        *(*SCHEDULES, *OVERLAPS, *LOST_HITS),
        *(*SGLANG_TREES, *SGLANG_HOSTS, *SGLANG_BUDGETS, *SGLANG_SLOTS, *SGLANG_COPIES),
        *(*SGLANG_SPECS, *SGLANG_RESULTS, *SGLANG_OVERLAPS),
        *(*SGLANG_POOLS, *SGLANG_GROUPS, *SGLANG_LOCKS, *SGLANG_NODES, *SGLANG_TIERS, *SGLANG_SCHEDULES),
    )
)
"""Every mutant by its name."""

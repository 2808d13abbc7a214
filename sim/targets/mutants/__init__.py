"""Every mutant by name. Each has a defect that real code had, and shows on legal tapes."""

from __future__ import annotations

from collections.abc import Iterable

from .allocation import ALLOCATION, RELEASE
from .caches import FORGOTTEN, KEYS
from .combined_builtin import COMBINED
from .contents import CONTENTS
from .disagg_budgets_builtin import BUDGETS
from .disagg_builtin import COPIES, SLOTS
from .disagg_sglang import SGLANG_BUDGETS
from .disagg_slots_sglang import SGLANG_COPIES, SGLANG_SLOTS
from .engine import ENGINE
from .engine_builtin import REQUESTS
from .graphs_builtin import GRAPHS
from .hicache_builtin import BACKUPS, EVICTIONS
from .load_back_builtin import LOAD_BACKS
from .scheduler_builtin import SCHEDULES
from .spec_builtin import ACCEPTED, DRAFTS, RESERVES
from .spec_graphs_builtin import SPEC_GRAPHS
from .spec_sglang import SGLANG_SPECS
from .transform import Mutant
from .tree_builtin import INSERTIONS, TREES
from .tree_sglang import SGLANG_HOSTS, SGLANG_TREES

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
        *(*REQUESTS, *TREES, *INSERTIONS, *EVICTIONS, *BACKUPS, *LOAD_BACKS),
        *(*BUDGETS, *SLOTS, *COPIES, *GRAPHS),
        *(*DRAFTS, *ACCEPTED, *RESERVES, *SPEC_GRAPHS, *COMBINED),
        *SCHEDULES,
        *(*SGLANG_TREES, *SGLANG_HOSTS, *SGLANG_BUDGETS, *SGLANG_SLOTS, *SGLANG_COPIES),
        *SGLANG_SPECS,
    )
)
"""Every mutant by its name."""

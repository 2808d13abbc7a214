"""Every mutant by name. Each breaks the target the way real code broke, and shows on legal tapes."""

from __future__ import annotations

from collections.abc import Iterable

from staleloc.sim.mutants.allocation import ALLOCATION, RELEASE
from staleloc.sim.mutants.caches import FORGOTTEN, KEYS
from staleloc.sim.mutants.contents import CONTENTS
from staleloc.sim.mutants.disagg_budgets_builtin import BUDGETS
from staleloc.sim.mutants.disagg_builtin import COPIES, SLOTS
from staleloc.sim.mutants.disagg_sglang import SGLANG_BUDGETS
from staleloc.sim.mutants.disagg_slots_sglang import SGLANG_COPIES, SGLANG_SLOTS
from staleloc.sim.mutants.engine import ENGINE
from staleloc.sim.mutants.engine_builtin import REQUESTS
from staleloc.sim.mutants.graphs_builtin import GRAPHS
from staleloc.sim.mutants.hicache_builtin import BACKUPS, EVICTIONS
from staleloc.sim.mutants.load_back_builtin import LOAD_BACKS
from staleloc.sim.mutants.spec_builtin import ACCEPTED, DRAFTS, RESERVES
from staleloc.sim.mutants.spec_graphs_builtin import SPEC_GRAPHS
from staleloc.sim.mutants.spec_sglang import SGLANG_SPECS
from staleloc.sim.mutants.tree_builtin import INSERTIONS, TREES
from staleloc.sim.mutants.tree_sglang import SGLANG_HOSTS, SGLANG_TREES
from staleloc.sim.mutate import Mutant

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
        *(*DRAFTS, *ACCEPTED, *RESERVES, *SPEC_GRAPHS),
        *(*SGLANG_TREES, *SGLANG_HOSTS, *SGLANG_BUDGETS, *SGLANG_SLOTS, *SGLANG_COPIES),
        *SGLANG_SPECS,
    )
)
"""Every mutant by its name."""

"""Guards that are taken away, one at a time: each gives a changed target, on which tapes must part from the model."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from staleloc.sim.audit.sites import Map
from staleloc.sim.audit.spots import Spot

__all__ = ["Change", "Dropped", "changes_of"]


@dataclass(frozen=True)
class Change:
    """The statement at a spot does nothing any more.

    Attributes:
        sites: numbers of the sites that it guards.
        caches: numbers of the caches that it drops.
    """

    spot: Spot
    sites: tuple[int, ...]
    caches: tuple[int, ...]

    @property
    def name(self) -> str:
        """What is done, in a few words."""
        return f"{self.spot.function} without {self.spot.text}"


def changes_of(found: Map) -> tuple[Change, ...]:
    """Every invalidation that guards a site, once, in the order of files and lines."""
    numbers = {cache.name: number for number, cache in enumerate(found.caches)}
    guards: dict[Spot, tuple[set[int], set[int]]] = {}
    for number, site in enumerate(found.sites):
        for guard in site.guards if site.changes else ():
            sites, caches = guards.setdefault(guard.spot, (set(), set()))
            sites.add(number)
            caches.add(numbers[guard.cache])
    return tuple(Change(spot, tuple(sorted(a)), tuple(sorted(b))) for spot, (a, b) in sorted(guards.items()))


class Dropped:
    """A function from sources to sources: without one statement.

    Attributes:
        made: whether the statement was there.
    """

    def __init__(self, module: str, line: int, column: int) -> None:
        self._module = module
        self._where = line, column
        self.made = False

    def __call__(self, module: str, source: str) -> str:
        """`source` without the statement, if it has it."""
        if module != self._module:
            return source
        tree = ast.parse(source)
        for node in ast.walk(tree):
            for name in ("body", "orelse", "finalbody"):
                body = getattr(node, name, None)
                if isinstance(body, list):
                    setattr(node, name, self._without(body))
        return ast.unparse(ast.fix_missing_locations(tree)) if self.made else source

    def _without(self, body: Sequence[Any]) -> list[Any]:
        return [ast.copy_location(ast.Pass(), it) if self._is_it(it) else it for it in body]

    def _is_it(self, node: Any) -> bool:
        """Whether it is the statement. One that others lie in, or that gives something a name, cannot go."""
        if (node.lineno, node.col_offset) != self._where or not isinstance(node, ast.Expr | ast.Assign | ast.Delete):
            return False
        if isinstance(node, ast.Assign) and any(isinstance(it, ast.Name | ast.Tuple) for it in node.targets):
            return False
        self.made = True
        return True

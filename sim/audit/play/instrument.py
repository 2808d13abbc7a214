"""Counters, and the calls of them that are put into the target's source when it is loaded.

Calls are put after the statements of sites, before those of guards, and around reads of a cache. A cached translation
is *alive* from the moment when it is kept until it is dropped. A site is *exposed* to a cache if a translation was
alive when the site changed the mapping, and the cache was read again before it was filled anew; it is *served* if the
old translation was still there. All objects of a class count as one cache.
"""

from __future__ import annotations

import ast
import builtins
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeVar

from ...core.timeouts import playing
from ..guards import Change
from ..source.program import Spot, text_of
from ..source.sites import Map

__all__ = ["NAME", "Hook", "Counters", "Instrumenter", "hooks_of", "install"]

NAME = "_staleloc_notes"
"""Name in `builtins` by which instrumented source finds the counters."""

_T = TypeVar("_T")


@dataclass
class _Waiting:
    """A change of the mapping under a cached translation that has not been read since.

    Attributes:
        event: index of the event of the change.
        dropped: whether the translation was dropped.
        guard: number of the invalidation that dropped it, if that is counted.
    """

    event: int
    dropped: bool = False
    guard: int | None = None


class Counters:
    """The counts of instrumented source.

    Attributes:
        call: the call of the target that is under way; ``""`` for none, and then nothing is counted.
        reached: ``(site, call)`` -> how often.
        alive: site -> how often a cached translation was alive.
        exposed: ``(site, cache)`` -> how often.
        served: ``(site, cache)`` -> how often a translation from before was read.
        late: ``(site, cache)`` -> pairs of events of this tape: in the first the site changed the mapping under a
            cached translation, in the second that was served.
        changed: event of this tape -> sites that were reached in it.
        needed: guard -> how often a translation that it had dropped was read again.
        passed: guards whose statement was reached in this tape.
    """

    def __init__(self) -> None:
        self.call = ""
        self.reached: Counter[tuple[int, str]] = Counter()
        self.alive: Counter[int] = Counter()
        self.exposed: Counter[tuple[int, int]] = Counter()
        self.served: Counter[tuple[int, int]] = Counter()
        self.late: dict[tuple[int, int], set[tuple[int, int]]] = {}
        self.changed: dict[int, set[int]] = {}
        self.needed: Counter[int] = Counter()
        self.passed: set[int] = set()
        self._live: set[int] = set()
        self._waiting: dict[int, dict[int, _Waiting]] = {}

    def restart(self) -> None:
        """Begin another tape with new objects: nothing is alive."""
        self.late.clear()
        self.changed.clear()
        self.passed.clear()
        self._live.clear()
        self._waiting.clear()

    def site(self, number: int) -> None:
        """Count that a site has changed the mapping."""
        if not self.call:
            return
        event = playing()
        self.reached[number, self.call] += 1
        self.changed.setdefault(event, set()).add(number)
        self.alive[number] += bool(self._live)
        for cache in self._live:
            self._waiting.setdefault(cache, {})[number] = _Waiting(event)

    def keep(self, cache: int) -> None:
        """Count that a translation is kept."""
        self._live.add(cache)
        self._waiting.pop(cache, None)

    def drop(self, cache: int) -> None:
        """Count that a translation is dropped."""
        self._live.discard(cache)
        for it in self._waiting.get(cache, {}).values():
            it.dropped = True

    def guard(self, number: int) -> None:
        """Count that an invalidation has run."""
        for waiting in self._waiting.values():
            for it in waiting.values():
                if it.dropped and it.guard is None:
                    it.guard = number

    def come(self, number: int) -> None:
        """Count that the statement of a guard that drops nothing is about to run."""
        self.passed.add(number)

    def read(self, cache: int, value: _T) -> _T:
        """Count that a cache is read, and return `value`."""
        if self.call and cache in self._waiting:
            waiting = self._waiting.pop(cache)
            self.needed.update({it.guard for it in waiting.values() if it.guard is not None})
            for number, it in waiting.items():
                self.exposed[number, cache] += 1
                if not it.dropped and value is not None:
                    self.served[number, cache] += 1
                    self.late.setdefault((number, cache), set()).add((it.event, playing()))
        return value


def install() -> Counters:
    """Make new counters that instrumented source finds."""
    notes = Counters()
    setattr(builtins, NAME, notes)
    return notes


Says = Literal["site", "keep", "drop", "read", "guard", "come"]


class Hook(NamedTuple):
    """A call to put in: the method of `Counters`, the number of the site, cache or guard, and the position."""

    says: Says
    number: int
    line: int
    column: int
    text: str


def hooks_of(found: Map, changes: Sequence[Change]) -> dict[str, list[Hook]]:
    """Return the hooks of each file, by its path. Sites and caches have their numbers of `found`, guards those of
    `changes`."""
    hooks: dict[str, list[Hook]] = defaultdict(list)

    def put(says: Says, number: int, spots: Iterable[Spot]) -> None:
        for spot in spots:
            hooks[spot.path].append(Hook(says, number, spot.line, spot.column, spot.text))

    for number, site in enumerate(found.sites):
        if site.changes:
            put("site", number, [site.spot])
    for number, cache in enumerate(found.caches):
        put("keep", number, cache.kept)
        put("drop", number, cache.dropped)
        put("read", number, cache.read)
    for number, change in enumerate(changes):
        put("guard" if change.kind == "invalidation" else "come", number, [change.spot])
    return dict(hooks)


class Instrumenter:
    """A transformation of sources, for a loader.

    Args:
        hooks: module -> its hooks.

    Attributes:
        placed: module -> how many hooks found their position.
    """

    def __init__(self, hooks: Mapping[str, Sequence[Hook]]) -> None:
        self._hooks = hooks
        self.placed: dict[str, int] = {}

    def __call__(self, module: str, source: str) -> str:
        """Return `source` with the calls."""
        hooks = self._hooks.get(module)
        if not hooks:
            return source
        putter = _Putter(hooks)
        tree = putter.visit(ast.parse(source))
        self.placed[module] = len(putter.found)
        return ast.unparse(ast.fix_missing_locations(tree))


class _Putter(ast.NodeTransformer):
    def __init__(self, hooks: Sequence[Hook]) -> None:
        self._hooks: dict[tuple[int, int], list[Hook]] = defaultdict(list)
        for hook in hooks:
            self._hooks[hook.line, hook.column].append(hook)
        self._after: list[Hook] = []
        self.found: set[Hook] = set()

    def visit(self, node: ast.AST) -> Any:
        if isinstance(node, ast.FunctionDef) and any("jit" in ast.unparse(it) for it in node.decorator_list):
            return node  # compiled for a GPU from its source: a call of ours has no place in it
        found = self._found(node)
        if isinstance(node, ast.stmt):
            return self._statement(node, found)
        visited = self.generic_visit(node)
        reads = [hook for hook in found if hook.says == "read"]
        self._after += [hook for hook in found if hook.says not in ("read", "come")]
        if isinstance(getattr(node, "ctx", None), ast.Load) and isinstance(visited, ast.expr):
            for hook in reads:
                visited = ast.copy_location(_call(hook, visited), node)
        return visited

    def _statement(self, node: ast.stmt, found: list[Hook]) -> Any:
        outer, self._after = self._after, []
        visited = self.generic_visit(node)
        before = [hook for hook in found if hook.says == "come"]
        after = [*self._after, *(hook for hook in found if hook.says != "come")]
        self._after = outer
        after.sort(key=lambda hook: hook.says == "guard")  # it counts what was dropped before it
        if isinstance(node, ast.Return | ast.Raise):
            before, after = [*before, *after], []
        if not (before or after):
            return visited
        return [*_statements(before, node), visited, *_statements(after, node)]

    def _found(self, node: ast.AST) -> list[Hook]:
        line, column = getattr(node, "lineno", None), getattr(node, "col_offset", None)
        if line is None or column is None or not isinstance(node, ast.stmt | ast.expr):
            return []
        near = self._hooks.get((line, column), [])
        text = text_of(node) if near else ""
        found = [hook for hook in near if hook.text == text]
        self.found.update(found)
        return found


def _statements(hooks: Iterable[Hook], near: ast.stmt) -> list[ast.stmt]:
    return [ast.copy_location(ast.Expr(_call(hook)), near) for hook in dict.fromkeys(hooks)]


def _call(hook: Hook, *values: ast.expr) -> ast.Call:
    function = ast.Attribute(ast.Name(NAME, ast.Load()), hook.says, ast.Load())
    return ast.Call(function, [ast.Constant(hook.number), *values], [])

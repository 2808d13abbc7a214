"""Guards are found in source, and a function runs without one, one at a time."""

from __future__ import annotations

import ast
import sys
import textwrap
from dataclasses import asdict
from types import ModuleType

import pytest

from staleloc.sim.audit.guards import KINDS, Change, changes_of, rewrites_of, unmatched
from staleloc.sim.audit.play.patch import Functions, changed_code
from staleloc.sim.audit.source.program import Source
from staleloc.sim.audit.source.sites import map_of, read_program


def guards(body: str) -> list[tuple[str, str, str]]:
    """Kind, what stands there, and what comes in, of each guard of a function with this body."""
    function = ast.parse("def f():\n" + textwrap.indent(textwrap.dedent(body).strip(), "    ")).body[0]
    assert isinstance(function, ast.FunctionDef)
    return [(it.kind, ast.unparse(it.node), it.new) for it in rewrites_of(function)]


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("held = s > 0\nreturn s[held]", [("sentinel", "s > 0", "s >= 0"), ("mask", "s[held]", "s")]),
        ("return s[a.swa_mask & m]", [
            ("mask", "s[a.swa_mask & m]", "s"),
            ("mask", "a.swa_mask & m", "a.swa_mask"), ("mask", "a.swa_mask & m", "m"),
        ]),
        ("return a and b or c", [
            ("mask", "a and b or c", "c"), ("mask", "a and b or c", "a and b"),
            ("mask", "a and b", "b"), ("mask", "a and b", "a"),
        ]),
        ("return a or {}", []),
        ("return [i for i in x if i.swa]", [("mask", "[i for i in x if i.swa]", "[i for i in x]")]),
        ("m[locs] = 0", [("sentinel", "m[locs] = 0", "")]),
        ("self.swa_loc = None", [("sentinel", "self.swa_loc = None", "")]),
        ("name = None", []),
        ("m.index_fill_(0, i, 0)", [("sentinel", "m.index_fill_(0, i, 0)", "")]),
        ("return range(1, n)", [("sentinel", "range(1, n)", "range(n)")]),
        ("return x[a:b]", [("bound", "x[a:b]", "x[:b]"), ("bound", "x[a:b]", "x[a:]")]),
        ("return x[:b]", [("bound", "x[:b]", "x")]),
        ("return min(a, b)", [("bound", "min(a, b)", "a"), ("bound", "min(a, b)", "b")]),
        ("return n // p * p", [("bound", "n // p * p", "n")]),
        ("return -(-n // p)", [("bound", "-(-n // p)", "n // p")]),
        ("if n > room:\n    return", [("bound", "if n > room:\n    return", "")]),
        ("if n > room:\n    raise ValueError(n[:2])", []),
        ("assert a and b", []),
        ("return t[i, :n]", [("bound", "t[i, :n]", "t[i, :]")]),
        ("return min(a, b, c)", [
            ("bound", "min(a, b, c)", "min(a, b)"), ("bound", "min(a, b, c)", "min(a, c)"),
            ("bound", "min(a, b, c)", "min(b, c)"),
        ]),
        ("return n - n % p", [("bound", "n - n % p", "n")]),
        ("return p * (n // p)", [("bound", "p * (n // p)", "n")]),
        ("if n > room:\n    log(n)\n    return", [("bound", "if n > room:\n    log(n)\n    return", "")]),
        ("m[a] = m[b] = 0", [("sentinel", "m[a] = m[b] = 0", "")]),
        ("held &= s > 0", [("mask", "held &= s > 0", ""), ("sentinel", "s > 0", "s >= 0")]),
        ("held: T = isin(s, t)\nreturn s[held]", []),
        ("held: T = torch.isin(s, t)\nreturn s[held]", [("mask", "s[held]", "s")]),
        ("return x[:]", [("view", "x[:]", "x")]),
        ("return x[::-1]", []),
        ("if a and b:\n    raise ValueError(a)", []),
        ("return list(self.free)", [("view", "list(self.free)", "self.free")]),
        ("return list(f())", []),
        ("return t.clone()", [("clone", "t.clone()", "t")]),
        ("self.m.put(x)\nself.m.clear()", [("order", "self.m.put(x)", "self.m.clear()")]),
        ("s = self.m.get(x)\nself.m.clear()", [("order", "s = self.m.get(x)", "self.m.clear()")]),
        ("s = self.m.get(x)\nself.m.put(s)", []),
        ("self.full.put(x)\nself.swa.put(x)", []),
        ("self.a = f(x)\nself.b = g(x)", []),
    ],
)  # fmt: skip
def test_what_is_a_guard(body, found):
    """One of each kind, and what only looks like one: a default, a contract, statements that do not meet."""
    assert guards(body) == found


POOL = '''
class Pool:
    """Keeps slots by page."""

    page = 4

    @property
    def size(self):
        return len(self.full_to_swa_index_mapping)

    def rows(self, locs):
        def mapped(loc):
            return self.full_to_swa_index_mapping[loc] > 0 and loc < self.size
        return [loc for loc in locs if mapped(loc)]

    def take(self, count):
        got = self.full_to_swa_index_mapping[:count]
        if not got:
            return None
        self.full_to_swa_index_mapping = got
        return super().__repr__() and got

    def blank(self, count):
        self.full_to_swa_index_mapping[:count] = [0] * len(self.full_to_swa_index_mapping)
'''


@pytest.fixture
def pool(request):
    """The class of a module that is loaded, and its changes."""
    name = f"pool_{request.node.name.partition('[')[0]}"
    module = ModuleType(name)
    sys.modules[name] = module
    exec(compile(POOL, name, "exec"), vars(module))
    reading = read_program([Source(name, "pool.py", POOL)])
    yield name, module.Pool, changes_of(reading, map_of(reading))
    del sys.modules[name]


def patched(name: str, changes: tuple[Change, ...], which: str):
    (change,) = (it for it in changes if it.name == which)
    code = changed_code(POOL, asdict(change), name)
    assert code is not None
    patch = Functions().versions(name, code)
    assert patch is not None
    return patch


def test_a_guard_goes_and_comes_back(pool):
    """Objects that are there already run without it, too; a nested function's guard is its outer function's."""
    name, cls, changes = pool
    it = cls()
    it.full_to_swa_index_mapping = [0, 7, 0, 9]
    patch = patched(name, changes, "Pool.rows: [loc for loc in locs] for [loc for loc in locs if mapped(loc)]")
    assert it.rows([0, 1, 2]) == [1]
    patch.put_in()
    assert it.rows([0, 1, 2]) == [0, 1, 2]
    patch.take_out()
    assert it.rows([0, 1, 2]) == [1]
    nested = "self.full_to_swa_index_mapping[loc] >= 0 for self.full_to_swa_index_mapping[loc] > 0"
    patched(name, changes, f"Pool.rows: {nested}").put_in()
    assert it.rows([0, 1, 2]) == [0, 1, 2]


def test_a_way_out_and_an_order_are_changed_in_a_method_that_calls_its_base(pool):
    """What a function closes over stays what it was."""
    name, cls, changes = pool
    it = cls()
    it.full_to_swa_index_mapping = []
    assert it.take(2) is None
    patched(name, changes, "Pool.take without if not got: return None").put_in()
    assert it.take(2) == []


def test_the_end_of_a_slice_that_is_written_to_can_be_taken_away(pool):
    """What was assigned to still is."""
    name, cls, changes = pool
    it = cls()
    it.full_to_swa_index_mapping = [1, 2, 3]
    whole, part = "self.full_to_swa_index_mapping[:]", "self.full_to_swa_index_mapping[:count]"
    patched(name, changes, f"Pool.blank: {whole} for {part}").put_in()
    it.blank(1)
    assert it.full_to_swa_index_mapping == [0, 0, 0]


def test_a_method_that_a_pattern_names_is_looked_at_whatever_it_does():
    """What changes the mapping by the methods that it calls, and calls its base for nothing else."""
    source = textwrap.dedent("""
    class Base:
        def drop(self):
            self.dropped = True
    class Pool(Base):
        def trim(self, locs, n):
            if n == 0:
                return
            super().drop()
            self.free(locs[:n])
        def free(self, locs):
            self.full_to_swa_index_mapping[locs] = 0
    """)
    reading = read_program([Source("m", "m.py", source)])
    found = map_of(reading)
    assert "Pool.trim" not in {it.spot.function for it in changes_of(reading, found)}
    changes = changes_of(reading, found, "m.py:*.trim")
    assert [it.name for it in changes] == [
        "Pool.trim without if n == 0: return", "Pool.trim: locs for locs[:n]",
    ]  # fmt: skip
    module = ModuleType("named")
    exec(compile(source, "named", "exec"), vars(module))
    gone = {"kind": "invalidation", "line": 9, "column": 8, "old": "super().drop()", "new": ""}
    code = changed_code(source, gone, "named")
    assert code is not None
    patch = Functions().versions("named", code)
    assert patch is not None
    patch.put_in()
    pool = module.Pool()
    pool.full_to_swa_index_mapping = [1, 2]
    pool.free = lambda locs: None
    pool.trim([0], 1)
    assert not hasattr(pool, "dropped")


def test_each_change_of_a_program_has_a_name_of_its_own_that_lines_do_not_change(pool):
    """A file of known ones can name it."""
    _, _, changes = pool
    names = [it.name for it in changes]
    assert len(set(names)) == len(names)
    moved = read_program([Source("m", "pool.py", "\n\n# moved\n" + POOL)])
    assert [it.name for it in changes_of(moved, map_of(moved))] == names
    twice = "def f(self):\n    return self.full_to_swa_index_mapping[:3], self.full_to_swa_index_mapping[:3]\n"
    reading = read_program([Source("m", "m.py", twice)])
    first, second = (it.name for it in changes_of(reading, map_of(reading)))
    assert second == f"{first} (2)"


def test_guards_can_be_chosen_by_file_and_function(pool):
    """The others are left alone."""
    reading = read_program([Source("m", "pool.py", POOL)])
    found = map_of(reading)
    assert {it.spot.function for it in changes_of(reading, found, "pool.py:Pool.ta*")} == {"Pool.take"}
    assert changes_of(reading, found, "other.py:*") == ()


def test_code_that_is_not_loaded_or_closes_over_other_names_is_not_exchanged(pool):
    """Such a change is not made, and that is said."""
    name, _, changes = pool
    code = changed_code(POOL, asdict(changes[0]), name)
    assert code is not None
    assert Functions().versions("nowhere", code) is None
    assert changed_code(POOL, {**asdict(changes[0]), "line": 1, "column": 0}, name) is None


def test_functions_that_have_nothing_to_do_with_the_mapping_keep_their_guards():
    """Nor is a constructor's guard one: nothing is cached before an object is there."""
    source = textwrap.dedent("""
    class Pool:
        def __init__(self, n):
            self.full_to_swa_index_mapping = make(n)[:3]
        def other(self, n):
            return n[:3]
        def asked(self, loc):
            return self.full_to_swa_index_mapping[loc]
        def asks(self, locs):
            return self.asked(locs[:3])
    """)
    reading = read_program([Source("m", "m.py", source)])
    assert [it.name for it in changes_of(reading, map_of(reading))] == ["Pool.asks: locs for locs[:3]"]
    assert set(KINDS) >= {it.kind for it in changes_of(reading, map_of(reading))}


@pytest.mark.parametrize(
    ("patterns", "told"), [("pool.py:*", None), ("", ""), ("pool.py:*,", ""), ("pool.py:*,loop.py:*", "loop.py:*")]
)
def test_a_pattern_that_matches_nothing_is_told(patterns: str, told: str | None) -> None:
    """One that is empty asks about nothing, and is no answer to anything."""
    reading = read_program([Source("pool", "pool.py", "def free(it): it.full_to_swa_index_mapping[0] = 0")])
    assert unmatched(reading, patterns) == told

"""Mutation sites and caches are found in source that nothing runs, and nothing else is taken for one."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from staleloc.sim.audit.source.program import MAX_BYTES, Source, Unread, read_tree
from staleloc.sim.audit.source.sites import Map, map_of, read_program
from staleloc.sim.targets.mutants.transform import builtin_root

POOL = """
class Pool:
    def __init__(self):
        self.full_to_swa_index_mapping = None
        self.cached = None

    def register_mapping(self, full_to_swa_index_mapping):
        self.full_to_swa_index_mapping = full_to_swa_index_mapping

    def translate(self, locs):
        return self.full_to_swa_index_mapping[locs]

    def lookup(self, locs):
        if self.cached is None:
            self.cached = self.translate(locs)
        return self.cached

    def invalidate(self):
        self.cached = None
"""


def found(*sources: str) -> Map:
    """What is found in files `m0.py`, `m1.py`, ..."""
    named = (Source(f"m{it}", f"m{it}.py", textwrap.dedent(text)) for it, text in enumerate(sources))
    return map_of(read_program(named))


def changes(*sources: str) -> list[tuple[str, str, str]]:
    """Kind, function and text of each site that changes the mapping."""
    return [(it.kind, it.spot.function, it.spot.text) for it in found(*sources).sites if it.changes]


def method(body: str) -> str:
    """A class with one method."""
    inside = textwrap.indent(textwrap.dedent(body), " " * 8)
    return f"import torch\nclass A:\n    def run(self, pool, locs, slots):\n{inside}"


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("self.full_to_swa_index_mapping[locs] = slots", "write"),
        ("self.full_to_swa_index_mapping[locs] += slots", "write"),
        ("self.full_to_swa_index_mapping[:-1] = 0", "fill"),
        ("self.full_to_swa_index_mapping[:-1].fill_(0)", "fill"),
        ("self.full_to_swa_index_mapping.view(-1, 4).index_fill_(0, locs, 0)", "write"),
        ("self.full_to_swa_index_mapping.data.zero_()", "fill"),
        ("self.full_to_swa_index_mapping.__setitem__(locs, slots)", "write"),
        ("self.full_to_swa_index_mapping = torch.zeros(9)", "replace"),
        ("self.full_to_swa_index_mapping = slots", "replace"),
        ("pool.full_to_swa_index_mapping = slots", "replace"),
        ("setattr(pool, 'full_to_swa_index_mapping', slots)", "replace"),
        ("pool.full_to_swa_index_mapping.set_(slots)", "replace"),
        ("pool.full_to_swa_index_mapping.data = slots", "replace"),
        ("torch.index_select(slots, 0, locs, out=pool.full_to_swa_index_mapping)", "write"),
        ("torch.scatter_(pool.full_to_swa_index_mapping, 0, locs, slots)", "write"),
        ("getattr(pool, 'full_to_swa_index_mapping')[locs] = slots", "write"),
        ("table = pool.full_to_swa_index_mapping\ntable[locs] = slots", "write"),
        ("table = pool.full_to_swa_index_mapping if slots else None\nif table is not None: table[locs] = 0", "write"),
        ("for table in (pool.full_to_swa_index_mapping,):\n    table[locs] = slots", "write"),
        ("with slots as it:\n    try:\n        pool.full_to_swa_index_mapping[it] = 0\n    finally: 0", "write"),
        ("(lambda table=0: pool.full_to_swa_index_mapping.fill_(0))()", "fill"),
        ("[pool.full_to_swa_index_mapping.fill_(it) for it in slots]", "fill"),
        ("def inner(table=1):\n    pool.full_to_swa_index_mapping[locs] = slots\ninner()", "write"),
    ],
)
def test_every_way_to_change_the_mapping_is_found(body, kind):
    """Entries written, a part filled, the tensor replaced: through any name, view or statement."""
    assert [it[0] for it in changes(method(body))] == [kind]


@pytest.mark.parametrize(
    "body",
    [
        "swa = self.full_to_swa_index_mapping[locs]\nswa[swa < 0] = 0\nreturn swa",
        "copy = self.full_to_swa_index_mapping.clone()\ncopy[locs] = slots\nreturn copy",
        "table = pool.full_to_swa_index_mapping\ntable = slots\ntable[locs] = 0",
        "pool.full_to_page_index_mapping[locs] = slots",
        "pool.buffer[pool.full_to_swa_index_mapping[locs]] = slots",
        "assert pool.full_to_swa_index_mapping.numel() == len(slots)\nslots.fill_(0)",
        "print(pool.full_to_swa_index_mapping.shape)",
    ],
)
def test_what_changes_something_else_is_no_site(body):
    """Answers, copies, other tables and pools may be written to."""
    assert changes(method(body)) == []


def test_an_alias_that_a_class_keeps_is_followed():
    """A new method of a new class, in another file, is found through the name that the class gave the mapping."""
    source = """
    class Compactor:
        def __init__(self, allocator):
            self.table = allocator.full_to_swa_index_mapping

        def compact(self, old, new):
            entries = self.table.view(-1)
            entries.index_copy_(0, old, new)

    class Other:
        def __init__(self, rows):
            self.table = rows

        def compact(self, old, new):
            self.table.index_copy_(0, old, new)
    """
    assert changes(POOL, source)[1:] == [("write", "Compactor.compact", "entries.index_copy_(0, old, new)")]
    alias = [it for it in found(POOL, source).sites if it.kind == "alias"]
    assert [(it.spot.function, it.detail) for it in alias] == [("Compactor.__init__", "kept as Compactor.table")]


def test_a_subclass_and_a_base_class_share_the_alias():
    """What the constructor of a base class keeps, a method of the subclass changes."""
    source = """
    class Base:
        def __init__(self, pool):
            self.lut = pool.full_to_swa_index_mapping

    class Derived(Base):
        def flush(self):
            self.lut.zero_()
    """
    assert changes(source) == [("fill", "Derived.flush", "self.lut.zero_()")]


def test_a_function_that_is_given_the_mapping_is_followed():
    """The site is where the callee writes; the call hands the mapping out."""
    source = """
    def scatter(table, locs, slots):
        table[locs] = slots

    class A:
        def run(self, pool, locs, slots):
            scatter(pool.full_to_swa_index_mapping, locs, slots)
            outside(pool.full_to_swa_index_mapping)
    """
    assert changes(source) == [("write", "scatter", "table[locs] = slots")]
    assert [it.detail for it in found(source).sites if it.kind == "hand-out"] == [
        "to scatter",
        "to code that is not here",
    ]


def test_a_kernel_that_stores_into_the_mapping_is_found():
    """In a Triton kernel the mapping is an address, and arithmetic on it is the mapping still."""
    source = """
    import triton
    import triton.language as tl

    @triton.jit
    def kernel(table_ptr, locs_ptr, n):
        offsets = tl.arange(0, n)
        locs = tl.load(locs_ptr + offsets)
        swa = tl.load(table_ptr + locs)
        tl.store(table_ptr + locs, 0)

    def clear(pool, locs):
        kernel[(1,)](pool.full_to_swa_index_mapping, locs, 4)
    """
    assert changes(source) == [("write", "kernel", "tl.store(table_ptr + locs, 0)")]


def test_the_mapping_given_back_is_the_mapping():
    """A property, or a method, that gives it back hands it out, and what is done to it is found."""
    source = """
    class A:
        def __init__(self, inner):
            self.inner = inner

        @property
        def lut(self):
            return self.inner.full_to_swa_index_mapping

        def table(self):
            return self.lut

        def run(self, locs):
            self.table()[locs] = 0
            self.lut[locs] = 1
    """
    assert [it[2] for it in changes(source)] == ["self.table()[locs] = 0", "self.lut[locs] = 1"]


def test_a_method_of_the_same_name_in_an_unrelated_class_is_not_given_the_mapping():
    """Of several classes with such a method, it is the one whose parameter says so."""
    other = """
    class Sparse:
        def register_mapping(self, full_to_sparse_mapping):
            self.sparse = full_to_sparse_mapping

        def write(self, locs):
            self.sparse[locs] = 0

    def setup(pool, allocator):
        pool.register_mapping(allocator.full_to_swa_index_mapping)
    """
    assert changes(POOL, other) == [
        ("replace", "Pool.register_mapping", "self.full_to_swa_index_mapping = full_to_swa_index_mapping")
    ]


def test_the_first_mapping_of_an_object_is_no_change():
    """What a constructor makes nobody has asked yet."""
    source = """
    import torch
    class A:
        def __init__(self):
            self.full_to_swa_index_mapping = torch.zeros(9)
            self.full_to_swa_index_mapping[-1] = -1
    """
    assert [(it.kind, it.detail) for it in found(source).sites] == [("replace", "its first"), ("write", "its first")]
    assert changes(source) == []


def caches(*sources: str) -> dict[str, tuple[list[str], list[str]]]:
    """Name of each cache -> functions in which it is kept, and dropped."""
    return {
        it.name: ([spot.function for spot in it.kept], [spot.function for spot in it.dropped])
        for it in found(*sources).caches
    }


def test_a_cache_is_found_with_what_drops_it():
    """An answer kept on an object, and the statement that forgets it; the constructor's None forgets nothing."""
    assert caches(POOL) == {"Pool.cached": (["Pool.lookup"], ["Pool.invalidate"])}


@pytest.mark.parametrize(
    ("body", "name"),
    [
        ("self.swa = pool.full_to_swa_index_mapping[locs] // 4", "A.swa"),
        ("self.swa = pool.full_to_swa_index_mapping.clone()", "A.swa"),
        ("self.swa[:4].copy_(pool.full_to_swa_index_mapping[locs])", "A.swa"),
        ("self.memo[len(locs)] = pool.full_to_swa_index_mapping[locs].tolist()", "A.memo"),
        ("self.late.append(torch.gather(pool.full_to_swa_index_mapping, 0, locs))", "A.late"),
        ("slots.meta.swa = torch.where(locs > 0, pool.full_to_swa_index_mapping[locs], -1)", "*.meta.swa"),
        ("_, self.swa = locs, pool.full_to_swa_index_mapping[locs]", "A.swa"),
        ("self.swa = [int(it) for it in pool.full_to_swa_index_mapping[locs].tolist()]", "A.swa"),
        ("torch.add(pool.full_to_swa_index_mapping[locs], 1, out=self.swa)", "A.swa"),
        ("global KEPT\nKEPT = pool.full_to_swa_index_mapping[locs]", "m0.KEPT"),
    ],
)
def test_every_way_to_keep_an_answer_is_found(body, name):
    """On the object, in a buffer, in a container, on another object, in a global."""
    assert list(caches(method(body))) == [name]


@pytest.mark.parametrize(
    "body",
    [
        "swa = pool.full_to_swa_index_mapping[locs]\nself.count = len(swa)",
        "self.any = bool((pool.full_to_swa_index_mapping[locs] > 0).any())",
        "self.rows = pool.buffer[pool.full_to_swa_index_mapping[locs]]",
        "swa = pool.full_to_swa_index_mapping[locs]\nself.free = torch.cat([self.free, swa])",
    ],
)
def test_what_is_no_answer_is_no_cache(body):
    """A count, a truth, KV rows, a list of slots that answers are mixed into."""
    assert caches(method(body)) == {}


def test_an_answer_is_followed_through_setters_fields_and_methods():
    """Kept by a setter, as a field of a record, and as what a method of another class gives back."""
    source = """
    from dataclasses import dataclass

    @dataclass
    class Metadata:
        length: int
        swa_locs: object = None

    class Backend:
        def __init__(self, pool: Pool):
            self.pool = pool

        def set_swa(self, locs):
            self.swa = locs

        def plan(self, locs):
            self.set_swa(self.pool.translate(locs))
            return Metadata(len(locs), swa_locs=self.pool.translate(locs))
    """
    assert set(caches(POOL, source)) == {"Pool.cached", "Backend.swa", "Metadata.swa_locs"}


def test_guards_are_found_on_the_way_to_a_site():
    """An invalidation counts where it is called, for a helper in each of its callers; a caller without one is named."""
    source = """
    class Allocator:
        def __init__(self, pool: Pool):
            self.pool = pool
            self.full_to_swa_index_mapping = pool.full_to_swa_index_mapping

        def _map(self, locs, slots):
            self.full_to_swa_index_mapping[locs] = slots

        def alloc(self, locs, slots):
            self._map(locs, slots)
            self.pool.invalidate()

        def compact(self, locs, slots):
            self._map(locs, slots)
    """
    site = next(it for it in found(POOL, source).sites if it.spot.function == "Allocator._map")
    assert [(it.cache, it.spot.function, it.spot.text) for it in site.guards] == [
        ("Pool.cached", "Allocator.alloc", "self.pool.invalidate()")
    ]
    assert site.open == ("Allocator.compact",)


def test_a_call_whose_result_is_used_is_no_invalidation_that_could_go():
    """The statement that drops something inside it is."""
    source = """
    class Allocator:
        def __init__(self, pool: Pool):
            self.pool = pool
            self.full_to_swa_index_mapping = pool.full_to_swa_index_mapping

        def _forget(self):
            self.pool.invalidate()
            return 1

        def alloc(self, locs, slots):
            self.full_to_swa_index_mapping[locs] = slots
            forgotten = self._forget()
            return forgotten
    """
    site = next(it for it in found(POOL, source).sites if it.spot.function == "Allocator.alloc")
    assert [(it.spot.function, it.spot.text) for it in site.guards] == [("Allocator._forget", "self.pool.invalidate()")]


def test_what_changes_the_mapping_itself_is_no_invalidation():
    """An eviction on the way to a site drops what it takes, and guards nothing."""
    source = """
    class Allocator:
        def __init__(self, pool: Pool):
            self.pool = pool
            self.full_to_swa_index_mapping = pool.full_to_swa_index_mapping

        def evict(self, locs):
            self.full_to_swa_index_mapping[locs] = 0
            self.pool.invalidate()

        def alloc(self, locs, slots):
            self.evict(locs)
            self.full_to_swa_index_mapping[locs] = slots
    """
    sites = {it.spot.function: it for it in found(POOL, source).sites if it.changes}
    assert [it.spot.function for it in sites["Allocator.evict"].guards] == ["Allocator.evict"]
    assert (sites["Allocator.alloc"].guards, sites["Allocator.alloc"].open) == ((), ("Allocator.alloc",))


def test_the_builtin_target_has_the_sites_that_a_reader_finds():
    """All of them, and no other; each with the caches that its way drops."""
    sites = [it for it in map_of(read_program(read_tree(builtin_root(), ""))).sites if it.changes]
    assert [(it.spot.function, it.kind) for it in sites] == [
        ("KvPool.register_mapping", "replace"),
        ("SwaAllocator.clear", "fill"),
        ("SwaAllocator.register_mapping", "replace"),
        ("SwaAllocator.restore", "write"),
        ("SwaAllocator._map", "write"),
        ("SwaAllocator._unmap", "write"),
    ]
    dropped = {"FirstLayer.cached_loc", "Memo._answer", "SideChannel.swa_loc"}
    assert all({guard.cache for guard in it.guards} == dropped for it in sites)
    assert [it.spot.function for it in sites if it.open] == ["KvPool.register_mapping"]


def test_the_builtin_target_has_the_caches_that_a_reader_finds():
    """Every policy's, the tree's, that of captured graphs, and what a draft saves."""
    names = {it.name for it in map_of(read_program(read_tree(builtin_root(), ""))).caches}
    assert names >= {
        "AllocatorState.mapping", "Captured.swa_loc", "FirstLayer.cached_loc", "GraphBuffers.swa_locs", "Memo._answer",
        "Node.swa", "SideChannel.swa_loc",
    }  # fmt: skip
    assert not names & {"Node.full", "Node.host_full", "SlotAllocator._free", "HostPool.free"}


def test_reading_imports_nothing_but_python():
    """Neither torch nor the code that is read: it is safe to read anything."""
    code = "import sys, staleloc.sim.audit.source.sites; print(sorted({'torch', 'click'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


@pytest.mark.parametrize(
    "drop", ["it.pool.cached = None", "pool = it.pool\n    pool.cached = None", "del it.pool.cached"]
)
def test_an_answer_that_is_forgotten_of_an_object_of_no_known_class_is_that_of_any_cache_of_that_name(drop: str):
    """Whoever changes the mapping drops what the pool keeps, and nothing says of which class the pool is."""
    other = f"def free(it, locs):\n    it.full_to_swa_index_mapping[locs] = 0\n    {drop}\n"
    told = map_of(read_program([Source("pool", "pool.py", POOL), Source("other", "other.py", other)]))
    (cache,) = told.caches
    assert any(spot.function == "free" for spot in cache.dropped)
    (site,) = [it for it in told.sites if it.spot.function == "free"]
    assert [guard.cache for guard in site.guards] == [cache.name]


def test_files_that_cannot_be_read_are_told(tmp_path: Path):
    """A hostile folder ends nothing: what is wrong is said, the rest is read."""
    (tmp_path / "good.py").write_text(POOL)
    (tmp_path / "bom.py").write_bytes(b"\xef\xbb\xbf" + POOL.replace("Pool", "Bom").encode())
    (tmp_path / "latin.py").write_bytes(b"# coding: latin-1\n# caf\xe9\n" + POOL.replace("Pool", "Latin").encode())
    (tmp_path / "broken.py").write_text("def full_to_swa_index_mapping(:\n")
    (tmp_path / "bytes.py").write_bytes(b"full_to_swa_index_mapping = '\xff\xfe'\n")
    (tmp_path / "coding.py").write_bytes(b"# coding: no-such-thing\n")
    (tmp_path / "nul.py").write_bytes(b"x = 'full_to_swa_index_mapping\0'\n")
    (tmp_path / "deep.py").write_text(f"full_to_swa_index_mapping = {'(' * 5000}{')' * 5000}\n")
    (tmp_path / "minus.py").write_text(f"full_to_swa_index_mapping = {'-' * 20000}1\n")
    (tmp_path / "no-module.py").write_text("def full_to_swa_index_mapping(:\n")
    (tmp_path / os.fsdecode(b"\xff.py")).write_text("def full_to_swa_index_mapping(:\n")
    (tmp_path / "large.py").write_bytes(b"#" * (MAX_BYTES + 1))
    (tmp_path / "gone.py").symlink_to(tmp_path / "nowhere.py")
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_it.py").write_text(POOL.replace("Pool", "Test"))
    result = map_of(read_program(read_tree(tmp_path, "p")))
    assert {it.name for it in result.caches} == {"Pool.cached", "Bom.cached", "Latin.cached"}
    told = {it.path for it in result.unread}
    assert told == {"broken.py", "bytes.py", "coding.py", "deep.py", "gone.py", "large.py", "minus.py", "nul.py"}
    assert all(it.reason and "\n" not in it.reason and "None" not in it.reason for it in result.unread)


def test_a_cycle_of_classes_and_calls_ends():
    """Classes that come from each other and functions that call each other are read like any others."""
    source = """
    class A(B):
        def run(self, locs):
            self.full_to_swa_index_mapping[locs] = 0
            return self.run(locs)

    class B(A):
        def run(self, locs):
            return A.run(self, locs)
    """
    assert [it[1] for it in changes(source)] == ["A.run"]
    assert next(it for it in found(source).sites).open == ("A.run",) or found(source).sites[0].open == ("B.run",)


def test_what_was_found_is_in_one_order(tmp_path: Path):
    """The order of files says nothing: the same program gives the same map."""
    sources = [Source(f"m{it}", f"m{it}.py", POOL.replace("Pool", f"Pool{it}")) for it in range(4)]
    assert map_of(read_program(sources)) == map_of(read_program(sources[::-1]))
    assert map_of(read_program([Unread("x.py", "why")])).unread == (Unread("x.py", "why"),)

"""Which statements of a source count as lines that can run."""

from __future__ import annotations

from staleloc.sim.coverage.statements import functions_of

SOURCE = '''\
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    def for_types():
        return 1

LIMIT = 3


class Pool:
    """A pool."""

    size = 4

    def free(self, locs):
        """Free."""
        if TYPE_CHECKING:
            from a import b
        if (
            locs
            and self.size
        ):
            self.count(
                len(locs),
                [it for it in locs],
            )
        else:
            return None
        try:
            self.size += 1
        except ValueError:
            raise NotImplementedError("later")
        def inner(x): return x
        return inner

    def alloc(self):
        """For others to write."""
        raise NotImplementedError

    def shape(self): ...


def short(x): return x


def choose(x):
    match x:
        case 1:
            return 2
    for it in x:
        pass
'''


def test_statements_of_functions_count_once_each() -> None:
    """A call over several lines is one line; docstrings, abstract functions and types are none."""
    found = {it.name: [statement.first for statement in it.statements] for it in functions_of(SOURCE, "pool.py")}
    lines = SOURCE.splitlines()
    assert {name: [lines[it - 1].strip() for it in firsts] for name, firsts in found.items()} == {
        "Pool.free": [
            "if (", "self.count(", "return None", "try:", "self.size += 1", "except ValueError:",
            "def inner(x): return x", "return inner",
        ],
        "short": ["def short(x): return x"],
        "choose": ["match x:", "case 1:", "return 2", "for it in x:", "pass"],
    }  # fmt: skip


def test_a_compound_statement_is_its_header() -> None:
    """Its lines end before its block; where its first block and the block that it stands in end is known."""
    free = next(it for it in functions_of(SOURCE, "pool.py") if it.name == "Pool.free")
    branch = free.statements[0]
    lines = SOURCE.splitlines()
    assert lines[branch.last - 1].strip() == "):"
    assert branch.inner is not None
    assert lines[branch.inner - 1].strip() == ")"
    assert lines[branch.block - 1].strip() == "return inner"
    assert free.statements[1].inner is None

"""How the steps of a tape are written as calls of one engine. A dialect gives lines of Python.

Lines use the names of a script: ``full`` and ``swa`` (request -> locs of its tokens, as they must be) in the
expressions they are given, and they leave their results in ``new`` (an allocation's locs, or None), ``slots``
(fresh SWA locs), ``answer`` (a translation) and ``got`` (tags that a read brought), all plain lists.
"""

from __future__ import annotations

from typing import Protocol

from ....models.config import Config
from ...parts.allocator import events as ev

__all__ = ["Dialect", "Lines"]

Lines = list[str]


class Dialect(Protocol):
    """Calls of one engine. `locs` and the like are expressions for lists of full locs."""

    def setup(self, config: Config) -> Lines:
        """Import the engine and build the cache."""

    def looks(self) -> dict[str, Lines]:
        """Local functions that only look: ``table()``, ``rows(layer)``, ``free_full()``, ``free_swa()``."""

    def alloc(self, count: int) -> Lines:
        """Sets `new`, as do the next three."""

    def alloc_extend(self, prefix: list[int], seq: list[int], last: str) -> Lines: ...

    def alloc_decode(self, seq: list[int], last: str) -> Lines: ...

    def alloc_tail(self, prefix: int, seq: int, last: str, tail: int) -> Lines: ...

    def free(self, unmapped: str, mapped: str) -> Lines: ...

    def free_swa(self, locs: str) -> Lines: ...

    def group(self, begin: bool) -> Lines: ...

    def set_mapping(self, locs: str, count: int) -> Lines:
        """Sets `slots`, as does the next."""

    def register_mapping(self, locs: str, count: int) -> Lines: ...

    def backup(self) -> Lines: ...

    def restore(self) -> Lines: ...

    def clear(self) -> Lines: ...

    def begin_forward(self, event: ev.BeginForward, count: int) -> Lines:
        """The batch's full locs are in ``batch``."""

    def write(self, layer: int, tags: list[int]) -> Lines: ...

    def read(self, layer: int, locs: str) -> Lines:
        """Sets `got`."""

    def translate(self, event: ev.Translate, locs: str, count: int) -> Lines:
        """Sets `answer`."""

    def cpu_copy(self, copy: int, locs: str) -> Lines: ...

    def load_cpu_copy(self, copy: int, locs: str) -> Lines: ...

    def move(self, targets: str, sources: str) -> Lines: ...

    def declared(self, kind: str, event: str) -> Lines:
        """An event of somebody's file, which the script has as the module ``own``."""

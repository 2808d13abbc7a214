"""Running requests: their tokens and their rows of the request table."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ....models.config import Config
from .spec_layout import Layout
from .tree_nodes import Lock

__all__ = ["Request", "RequestTable", "row_width"]

_ROWS = 8
"""Rows that are made at a time."""


@dataclass
class Request:
    """A request that was admitted.

    Attributes:
        tokens: the prompt, then what was decoded.
        row: its row of the table, a full loc a token; what lies behind `length` is somebody's leftover.
        length: how many tokens have slots.
        shared: how many of them the tree owns: whole pages, kept by `lock`.
        evicted: how many tokens from the front it keeps no SWA slots of.
        lock: on the node that ends with the last shared token.
    """

    tokens: list[int]
    row: Tensor
    length: int
    shared: int
    evicted: int
    lock: Lock

    def locs(self, start: int, stop: int) -> list[int]:
        """Full locs of some of its tokens."""
        locs: list[int] = self.row[start:stop].tolist()
        return locs

    def append(self, locs: list[int]) -> None:
        """Its next tokens got slots."""
        self.row[self.length : self.length + len(locs)] = torch.tensor(locs)
        self.length += len(locs)


def row_width(config: Config) -> int:
    """Tokens a row has: the model's context length, and what a step takes ahead of the committed tokens, in whole
    pages. Without a context length, the full pool's size."""
    if not config.context_len:
        return config.full_size
    ahead = Layout(config).reserve if "spec" in config.features else 1
    return config.context_len + ahead + config.page_size - 1


class RequestTable:
    """Rows for requests, used again and again, as ``req_to_token`` is: the next request writes where one left off.

    Rows lie behind each other in memory, as a kernel addresses them: what is written behind the end of one is in the
    next.

    Attributes:
        width: tokens a row.
    """

    def __init__(self, width: int) -> None:
        self.width = width
        self._free: list[Tensor] = []

    def take(self) -> Tensor:
        """A row and what lies behind it: int64, shape ``[width or more]``."""
        if not self._free:
            # One row more than are used, so that what is written behind the last one has a place.
            block = torch.zeros((_ROWS + 1) * self.width, dtype=torch.int64)
            self._free = [block[row * self.width :] for row in range(_ROWS)]
        return self._free.pop()

    def give_back(self, row: Tensor) -> None:
        """Nobody uses the row any more."""
        self._free.append(row)

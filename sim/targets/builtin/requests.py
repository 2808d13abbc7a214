"""Running requests: their tokens and their rows of the request table."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ....models.config import Config
from .spec_layout import Layout
from .tree_nodes import Lock

__all__ = ["Request", "RequestTable", "row_width"]


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

    Args:
        width: tokens a row.
    """

    def __init__(self, width: int) -> None:
        self._width = width
        self._free: list[Tensor] = []

    def take(self) -> Tensor:
        """A row: int64, shape ``[width]``."""
        return self._free.pop() if self._free else torch.zeros(self._width, dtype=torch.int64)

    def give_back(self, row: Tensor) -> None:
        """Nobody uses the row any more."""
        self._free.append(row)

"""What the reading of a program finds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from .definitions import Function
from .spots import Spot
from .values import Place

__all__ = ["Kind", "Log", "Store"]

Kind = Literal["write", "fill", "replace", "alias", "hand-out"]
"""What is done with the mapping: entries written; all of a part set to one value; another tensor put in its place;
memory of it kept under another name; memory of it given to other code."""


@dataclass(frozen=True)
class Store:
    """Something happens to what is kept at a place: an answer is kept, dropped or asked for."""

    place: Place
    spot: Spot
    what: Literal["keep", "fill", "drop", "read"]


@dataclass
class Log:
    """Everything that one reading of all functions has seen."""

    sites: dict[tuple[Kind, Spot], str] = field(default_factory=dict)
    stores: list[Store] = field(default_factory=list)
    calls: list[tuple[Function, Function, Spot]] = field(default_factory=list)
    memoised: list[tuple[Function, Spot]] = field(default_factory=list)

"""Mutants of captured graphs that show in speculative decode too: the same edits, under drafts and verifications."""

from __future__ import annotations

from dataclasses import replace

from .graphs_builtin import GRAPHS
from .transform import Mutant

__all__ = ["SPEC_GRAPHS"]

_OF_DRAFTS = (
    *("graph-keeps-warm-up", "graph-keeps-padded-tail", "graph-binds-recreated-buffer"),
    *("graph-draft-keeps-target", "graph-verify-keeps-draft", "graph-smaller-batch-from-end"),
)

SPEC_GRAPHS: tuple[Mutant, ...] = tuple(
    replace(it, name=f"spec-{it.name}", features=("spec", "graphs"), events=("capture", "draft_tree", "target_verify"))
    for it in GRAPHS
    if it.name in _OF_DRAFTS
)

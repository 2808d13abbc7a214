"""Findings of ``staleloc fuzz``, told apart by whether a base shows them as well."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from ..findings.finding import Finding
from ..run.player import Player
from .bases import Bases
from .checkout import Subject, locate
from .known import Candidate

__all__ = ["check_bases", "split"]


def check_bases(target: str, texts: Sequence[str]) -> None:
    """Raise TargetError or KeepError if a base cannot be had; nothing is played."""
    with tempfile.TemporaryDirectory(prefix="staleloc-base-") as folder:
        bases = Bases(_subject(target, texts), Path(folder), Player)
        for text in texts:
            bases.of(text)


def split(target: str, texts: Sequence[str], findings: Sequence[Finding]) -> list[str | None]:
    """Return for each finding why it is known, or None.

    Raises:
        TargetError: a base cannot be had or played.
        KeepError: a file of accepted findings cannot be read.
    """
    if not texts or not findings:
        return [None] * len(findings)
    with (
        tempfile.TemporaryDirectory(prefix="staleloc-base-") as folder,
        Bases(_subject(target, texts), Path(folder), Player) as bases,
    ):
        known = [bases.of(text) for text in texts]
        candidates = [Candidate(it.tape, it.divergence) for it in findings]
        return [next(filter(None, (it.knows(candidate) for it in known)), None) for candidate in candidates]


def _subject(target: str, texts: Sequence[str]) -> Subject:
    return locate(target) if texts else Subject(target, Path(), "", False)

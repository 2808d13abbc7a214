"""Ranks the scenarios by how well they explain a symptom: its message first, then its kind, then its words.

The ranking depends on the packaged data alone. Scenarios with equal scores are in the order of their names.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from ..tapes.scenarios import Scenario, plain, scenarios
from .record import Symptom, record

__all__ = ["Match", "Server", "symptoms_of", "search"]

_WORD = re.compile(r"[a-z_][a-z0-9_]{2,}|\b\d{4,6}\b")

_COMMON = frozenset((
    "the", "and", "for", "with", "that", "this", "its", "are", "was", "has", "had", "not", "but", "from",
    "when", "where", "which", "what", "who", "how", "why", "does", "did", "our", "after", "before", "into",
    "over", "one", "two", "all", "any", "may", "then", "than", "them", "they", "there", "their", "only",
    "more", "also", "error", "errors", "raised", "assertion", "assertionerror", "exception", "traceback",
    "file", "line", "python", "server", "scheduler", "request", "requests", "token", "tokens",
    "slot", "slots", "cache", "node", "pool", "swa", "full", "kv", "gets", "get", "got",
))  # fmt: skip
"""Words that nearly every symptom or scenario has."""

MESSAGE, NUMBER, KIND, NAMED, WORDS = 60.0, 50.0, 12.0, 30.0, 24.0
"""What a match counts: the message of a divergence, the number of a pull request, the class of a symptom's kind, a
scenario that the kind names, and all words of the symptom. Of a second kind it is half."""

_LEAST = 8.0
"""The lowest score that counts as a match."""

_LEAST_WORDS = 2
"""Words, other than the common ones, that must match if nothing else does."""

_SHORTEST = 8
"""Characters of a message at least."""


@dataclass(frozen=True)
class Server:
    """The server on which a symptom was seen, as far as it is known.

    Attributes:
        target: the target whose record holds for it, or None.
        features: features that its flags stand for; None if no flags are known.
        host: whether it has a host tier.
    """

    target: str | None = None
    features: frozenset[str] | None = None
    host: bool = False

    def shows(self, scenario: Scenario) -> bool:
        """Whether the scenario's tape diverges on this release; true if it is not known."""
        return self.target is None or self.target in record().shown.get(scenario.name, scenario.diverges)

    def runs(self, scenario: Scenario) -> bool:
        """Whether a server with these flags has all that the scenario's tape takes; true if they are not known."""
        if self.features is None:
            return True
        config = scenario.tape.config
        needed = set(config.features) - {"scheduler", "overlap", "graphs"}  # every server has a scheduler
        return needed <= self.features and (self.host or not config.host_full_size)


@dataclass(frozen=True)
class Match:
    """A scenario that may explain a symptom.

    Attributes:
        why: what matched, in a few words.
    """

    scenario: Scenario
    score: float
    why: Sequence[str]


def symptoms_of(text: str) -> list[Symptom]:
    """The known kinds of a symptom, the one with the longest matching part first."""
    lowered = " ".join(text.lower().split())
    found = [
        (max((len(it) for it in symptom.says if it in lowered), default=0), symptom) for symptom in record().symptoms
    ]
    order = {symptom.name: number for number, (_, symptom) in enumerate(found)}
    return [it for length, it in sorted(found, key=lambda it: (-it[0], order[it[1].name])) if length]


def search(text: str, server: Server) -> list[Match]:
    """The scenarios that match a symptom, the best first: those of this server before all others."""
    kinds = symptoms_of(text)
    matches = [it for it in (_match(text, kinds, scenario) for scenario in scenarios()) if it.score >= _LEAST]
    return sorted(
        matches,
        key=lambda it: (not server.shows(it.scenario), not server.runs(it.scenario), -it.score, it.scenario.name),
    )


def _match(text: str, kinds: Sequence[Symptom], scenario: Scenario) -> Match:
    score, why = 0.0, []
    if _says(text, scenario):
        score += MESSAGE
        why.append("its message")
    numbers = set(re.findall(r"\b\d{5}\b", text)) & set(
        re.findall(r"\b\d{5}\b", f"{scenario.incident} {scenario.name}")
    )
    if numbers or scenario.name in text:
        score += NUMBER
        why.append(f"number {min(numbers)}" if numbers else "its name")
    for number, kind in enumerate(kinds):
        if kind.covers(scenario):
            score += (NAMED if scenario.name in kind.scenarios else KIND) / (2 if number else 1)
            why.append(kind.name)
    common, part = _shared(text, scenario)
    if score or len(common) >= _LEAST_WORDS:
        score += WORDS * part
        why += [f"the words {', '.join(common)}"] if common else []
    return Match(scenario, round(score, 3), why)


def _says(text: str, scenario: Scenario) -> bool:
    """Whether the symptom is a part of one of the scenario's messages, or holds one, whatever the numbers are."""
    said = _bare(text)
    if len(said) < _SHORTEST:
        return False
    messages = [_bare(part) for it in scenario.shows for part in (it, it.partition(": ")[2]) if part]
    return any(said in it or (len(it) >= _SHORTEST and it in said) for it in messages)


def _bare(text: str) -> str:
    return " ".join(plain(text).lower().split()).strip(" .!,;:'\"")


@cache
def _words(scenario: Scenario) -> frozenset[str]:
    told = " ".join(
        [scenario.name, scenario.incident, scenario.mechanism, scenario.kind, scenario.family, *scenario.shows]
    )
    return frozenset(_split(told))


def _split(text: str) -> list[str]:
    """The words of a text, without common ones and plurals, each once."""
    found = (word for word in _WORD.findall(text.lower().replace("-", " ")) if word not in _COMMON)
    return list(dict.fromkeys(word[:-1] if word.endswith("s") and len(word) > 4 else word for word in found))


@cache
def _times() -> Mapping[str, int]:
    """Word -> the number of scenarios that have it."""
    return Counter(word for scenario in scenarios() for word in _words(scenario))


def _shared(text: str, scenario: Scenario) -> tuple[list[str], float]:
    """The words of a symptom that a scenario has, and their part of all its words, rare ones counting more."""
    words = _split(text)
    weights = {word: math.log((len(scenarios()) + 1) / (_times().get(word, 0) or 1)) for word in words}
    common = [word for word in words if word in _words(scenario)]
    whole = sum(weights.values())
    return common, sum(weights[word] for word in common) / whole if whole else 0.0

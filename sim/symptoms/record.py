"""What is known of symptoms: what servers say, which bugs do that, and on which releases their tapes diverge.

The file is part of the package. Its releases are those of ``docs/matrix.json``, which is not; a test compares them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from ..tapes.scenarios import Scenario

__all__ = ["Record", "Symptom", "record"]


@dataclass(frozen=True)
class Symptom:
    """One kind of symptom.

    Attributes:
        name: what it is, in a few words.
        says: parts of messages and of reports, in lower case, by which it is known.
        means: its meaning, in a sentence or two.
        kinds: classes of divergences that show in this way.
        scenarios: names of scenarios that do.
        ways: options of ``staleloc fuzz`` that look for more, the best first.
    """

    name: str
    says: Sequence[str]
    means: str
    kinds: Sequence[str]
    scenarios: Sequence[str]
    ways: Sequence[Sequence[str]]

    def covers(self, scenario: Scenario) -> bool:
        """Whether a scenario shows in this way."""
        return scenario.name in self.scenarios or scenario.kind in self.kinds


@dataclass(frozen=True)
class Record:
    """Everything that is known.

    Attributes:
        drafts: names of scenarios that have a draft report in the repository, under ``docs/reports``.
        shown: scenario -> the targets on which its tape diverges, oldest release first.
    """

    symptoms: Sequence[Symptom]
    drafts: Sequence[str]
    shown: Mapping[str, Sequence[str]]


@cache
def record() -> Record:
    """The packaged record."""
    values = json.loads((files(__package__) / "symptoms.json").read_text(encoding="utf-8"))
    symptoms = [Symptom(ways=it.pop("try"), **it) for it in values["symptoms"]]
    return Record(symptoms, values["drafts"], values["shown"])

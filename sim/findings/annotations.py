"""Results for a code host: annotations of a GitHub workflow, and SARIF 2.1.0 for code scanning.

Paths are relative to the root of a repository.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from .finding import our_version

__all__ = ["Remark", "sarif", "workflow_command"]


@dataclass(frozen=True)
class Remark:
    """A message about a line of a repository.

    Attributes:
        rule: the kind of message.
        level: ``"error"``, ``"warning"`` or ``"note"``.
        path: the file, or None if no line is known.
    """

    rule: str
    level: str
    message: str
    path: str | None = None
    line: int = 1


def workflow_command(remark: Remark) -> str:
    """Return the line that a workflow prints to annotate a pull request."""
    level = "notice" if remark.level == "note" else remark.level
    title = f"title=staleloc: {remark.rule}"
    where = title if remark.path is None else f"file={_property(remark.path)},line={remark.line},{title}"
    return f"::{level} {where}::{_escaped(remark.message)}"


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _escaped(text).replace(":", "%3A").replace(",", "%2C")


def sarif(rules: Mapping[str, str], remarks: Sequence[Remark]) -> dict[str, Any]:
    """Return a SARIF log.

    Args:
        rules: rule -> its meaning.
    """
    driver = {
        "name": "staleloc",
        "version": our_version(),
        "rules": [{"id": name, "shortDescription": {"text": text}} for name, text in rules.items()],
    }
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": list(map(_result, remarks))}],
    }


def _result(remark: Remark) -> dict[str, Any]:
    result: dict[str, Any] = {"ruleId": remark.rule, "level": remark.level, "message": {"text": remark.message}}
    if remark.path is not None:
        location = {"artifactLocation": {"uri": quote(remark.path)}, "region": {"startLine": remark.line}}
        result["locations"] = [{"physicalLocation": location}]
    return result

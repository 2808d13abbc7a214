"""The gate's result for machines: JUnit XML, SARIF and workflow annotations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from junitparser import Failure, JUnitXml, Skipped, TestCase, TestSuite

from ..core.divergence import CLASSES
from ..findings.annotations import Remark, sarif, workflow_command
from ..findings.explain import fact, sentence
from ..findings.text import render
from .outcome import Case, GateResult
from .report import place_text

__all__ = ["to_annotations", "to_junit", "to_sarif"]


def to_junit(result: GateResult) -> str:
    """Return JUnit XML: a suite for scenarios, one for kept tapes, one for each scope; a case for each tape that was
    judged, and one for the random tapes of a scope together. What is known is skipped, with its reason."""
    xml: Any = JUnitXml("staleloc")  # the library has no types
    groups = dict.fromkeys([*(case.group for case in result.cases), *(str(it.scope) for it in result.played)])
    for group in groups:
        suite = TestSuite(_clean(group))
        for it in result.played:
            if str(it.scope) == group:
                suite.add_testcase(TestCase(f"{it.tapes} random tapes", _clean(f"staleloc.{group}")))
        for case in result.cases:
            if case.group == group:
                suite.add_testcase(_test_case(result, case))
        xml.add_testsuite(suite)
    data = xml.tostring()
    text: str = data.decode("utf-8") if isinstance(data, bytes) else data
    return text


def _test_case(result: GateResult, case: Case) -> TestCase:
    test = TestCase(_clean(case.title), _clean(f"staleloc.{case.group}"))
    if case.fails and case.finding is not None:
        failure = Failure(_clean(_message(case)), case.finding.divergence.kind)
        places = "".join(f"look at {place_text(result, it)}\n" for it in case.places)
        failure.text = _clean(places + render(case.finding, case.saved))
        test.result = [failure]
    elif case.verdict in ("known", "unplayable"):
        test.result = [Skipped(_clean(f"{case.verdict}: {case.why}"))]
    return test


def _clean(text: str) -> str:
    """Return the text without characters that XML does not allow."""
    return "".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in text)


def _message(case: Case) -> str:
    assert case.finding is not None
    divergence, tape = case.finding.divergence, case.finding.tape
    why = sentence(divergence, tape)
    told = fact(divergence) if why == fact(divergence) else f"{fact(divergence)}: {why}"
    what = f"the incident {case.scenario} is back" if case.verdict == "back" else f"new {divergence.kind}"
    return f"{what}: {told}"


def _remarks(result: GateResult) -> Iterator[Remark]:
    for case in result.failures:
        assert case.finding is not None
        message = f"{_message(case)}\nShow it again: {_again(case)}"
        kind = case.finding.divergence.kind
        if not case.places:
            yield Remark(kind, "error", message)
        for place in case.places[:1]:
            others = "".join(f"\nAlso {place_text(result, it)}" for it in case.places[1:])
            yield Remark(kind, "error", message + others, result.subject.prefix + place.path, place.line)


def _again(case: Case) -> str:
    assert case.finding is not None
    if case.saved is not None:
        return f"staleloc replay {case.saved} --target {case.finding.origin.target}"
    return case.finding.origin.again


def to_annotations(result: GateResult) -> list[str]:
    """Return the lines that a GitHub workflow prints: an error for each case that fails, a warning for each thing that
    the result does not say."""
    lines = [workflow_command(remark) for remark in _remarks(result)]
    lines += [workflow_command(Remark("warning", "warning", text)) for text in result.warnings]
    lines += [
        workflow_command(Remark("stale", "warning", f"accepted, but no longer diverges: {it.kind}: {it.what}"))
        for it in result.stale
    ]
    return lines


def to_sarif(result: GateResult) -> dict[str, Any]:
    """Return a SARIF log with a result for each case that fails. Code scanning shows those that have a place."""
    found = list(_remarks(result))
    rules = {kind: CLASSES[kind] for kind in CLASSES if any(it.rule == kind for it in found)}
    return sarif(rules, found)

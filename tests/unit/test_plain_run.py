"""What a plain run leaves out is said in one place, and nothing else is left out."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]

LISTED = re.compile(r"^\| `(\S+\.py)` \|", re.MULTILINE)

OTHER_SKIPS = {
    "hostile/test_workers_isolation.py": "Linux, and its namespaces",
    "hostile/test_workers_protocol.py": "Linux",
    "quality/test_cuda_conformance.py": "a machine with a GPU",
    "release/test_releases.py": "triton",
    "release/test_spec_releases.py": "triton",
    "unit/coverage/test_collect.py": "Python 3.12",
    "unit/tapes/test_hostile.py": "a user who is not root",
}
"""Files with a condition of their own, and what it asks for."""


def sources() -> dict[str, str]:
    """Each test file, by its path in the folder of tests."""
    return {
        str(path.relative_to(TESTS)): path.read_text(encoding="utf-8")
        for path in TESTS.rglob("*.py")
        if path != Path(__file__) and "support" not in path.parts
    }


def test_each_file_that_leaves_something_out_is_listed_and_no_other() -> None:
    """A list that somebody keeps by hand would soon lie."""
    leaves_out = {name for name, text in sources().items() if re.search(r"^from plain_run import", text, re.MULTILINE)}
    assert set(LISTED.findall((TESTS / "README.md").read_text(encoding="utf-8"))) == leaves_out
    assert leaves_out


def test_nothing_is_left_out_on_a_condition_of_its_own() -> None:
    """Only through `plain_run`, or for want of what a machine has."""
    assert not [name for name, text in sources().items() if "environ" in text and '"STALELOC_LONG"' in text]
    assert {name for name, text in sources().items() if "skipif(" in text} == set(OTHER_SKIPS)

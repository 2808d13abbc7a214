"""Two commands beside each other, as tox runs them: neither hides the other's failure or words."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "support" / "beside.py"


@pytest.mark.parametrize(("first", "second", "code"), [(0, 0, 0), (3, 0, 3), (0, 4, 4), (3, 4, 4)])
def test_either_failure_is_a_failure(first: int, second: int, code: int) -> None:
    """And all that the first says is printed."""
    command = [sys.executable, "-c", "import sys; print('said'); sys.exit(int(sys.argv[1]))"]
    words = [sys.executable, str(SCRIPT), *command, str(first), "--", *command, str(second)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.count("said\n")) == (code, 2)

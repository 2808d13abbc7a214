"""What a process of the audit says when its target cannot be loaded."""

from __future__ import annotations

import json
import os
import subprocess
import sys

SCRIPT = """
from staleloc.sim.audit.play.jobs import serve_job
serve_job(lambda job: compile("def broken(:", "srt/mem_cache/mine.py", "exec"))
"""


def test_source_that_is_no_python_is_told_with_file_and_line() -> None:
    """A slip of the pen in a checkout is one line for the user, not a lost process."""
    job = json.dumps({"events": None, "nonce": "7", "mark": None})
    command = [sys.executable, "-c", SCRIPT, str(os.getpid()), "usual"]
    done = subprocess.run(command, input=job, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("7 0 ")
    assert json.loads(done.stdout.removeprefix("7 0 ")) == {
        "error": "srt/mem_cache/mine.py, line 1: invalid syntax; the target cannot be loaded"
    }

"""Run one command beside another, and fail if either does.

    python beside.py mypy -- pytest tests

The second writes to this process's output; what the first wrote follows at the end.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile

__all__ = ["main"]


def main(words: list[str]) -> int:
    """The exit code of the second command, or else of the first."""
    at = words.index("--")
    with tempfile.TemporaryFile() as output:
        first = subprocess.Popen(words[:at], stdout=output, stderr=subprocess.STDOUT)
        try:
            second = subprocess.run(words[at + 1 :], check=False)
            first.wait()
        finally:
            first.kill()
        output.seek(0)
        print(f"== {' '.join(words[:at])}: exit {first.returncode}", output.read().decode(), sep="\n", flush=True)
    return second.returncode or first.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

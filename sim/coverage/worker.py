"""The worker of a campaign, which also notes the lines that tapes run.

It serves the requests of `run.worker` and plays the same. The request ``open`` has the files of interest in
``covered``, and each answer has the lines that this process ran for the first time, in ``lines``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from ..run.process import Channel
from ..run.worker import Session, serve
from .collect import collector

__all__ = ["CoveredSession"]


class CoveredSession(Session):
    """A target, and the lines that it ran."""

    def __init__(self, request: dict[str, Any]) -> None:
        self._collector = collector(request["covered"])
        self._collector.start()
        super().__init__(request)

    def opened(self) -> dict[str, Any]:
        """See `Session.opened`."""
        return {**super().opened(), "lines": self._collector.fresh()}

    def run(self, request: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """See `Session.run`."""
        return self._with_lines(super().run(request))

    def play(self, request: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """See `Session.play`. With ``afresh`` in the request, lines that ran before count again."""
        if request.get("afresh"):
            self._collector.forget()
        return self._with_lines(super().play(request))

    def _with_lines(self, answers: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        for answer in answers:
            yield {**answer, "lines": self._collector.fresh()}


if __name__ == "__main__":
    serve(Channel(sys.argv[1:]), CoveredSession)

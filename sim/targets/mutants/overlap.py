"""Mutants of two batches in flight: what a batch holds is changed under it, and results that count once count twice."""

from __future__ import annotations

from .patches import mutants
from .transform import Mutant

__all__ = ["OVERLAPS"]

OVERLAPS = mutants(
    Mutant(
        "overlap-", "builtin", (), "hybrid", ("uncached", "memo"), "", level="engine", features=("scheduler", "overlap")
    ),
    """
over-allocation-leaks
    a request that ends gives back the slots of its known tokens, and not the one that the next batch has for it
    @@ overlap OverlapEngine.finish
    + running = self._requests[request]
    + running.length = min(running.length, len(running.tokens) - 1)
      self.checkpoint(request)
over-allocation-freed-twice
    the slot that a batch in flight had for a request that ended is freed with the request, and with its own result
    @@ overlap OverlapEngine.process
    - continue
    + if number != batch.middle and not batch.prefill:
    +     self._allocator.free([batch.locs[batch.numbers.index(number)]])
    + continue
result-for-the-next-request
    the result of a request that left goes to the one that has its number now
    @@ overlap OverlapEngine.process
    - not self._stays(number, entry)
    + number not in self._requests
result-after-retraction
    a retracted request waits with a token more when the result of the batch in flight comes
    @@ overlap OverlapEngine.process
    + if number in self._queues.waiting and not self._stays(number, entry):
    +     entry.tokens.append(token)
      if number == batch.middle or not self._stays(number, entry):
          continue
chunk-answers
    what is sampled after a chunk in the middle of a prompt counts as an output token
    @@ overlap OverlapEngine.process
    - number == batch.middle or not self._stays(number, entry)
    + not self._stays(number, entry)
lengths-in-place
    the next step counts its lengths up in the list that the batch in flight holds
    @@ overlap OverlapEngine._extend_rows
    - batch.prefill, batch.lens, batch.locs = False, lens, locs
    + batch.prefill, batch.locs = False, locs
    + batch.lens[:] = lens
locs-in-place
    the locs of the next step are written over those that the batch in flight holds
    @@ overlap OverlapEngine._extend_rows
    - batch.prefill, batch.lens, batch.locs = False, lens, locs
    + batch.prefill, batch.lens = False, lens
    + batch.locs[:] = locs
filter-in-place
    requests that leave a batch leave the one in flight too, and the others get their results
    @@ overlap _Batch.keep
    - self.numbers = [self.numbers[row] for row in rows]
    + self.numbers[:] = [self.numbers[row] for row in rows]
filter-keeps-lengths
    requests leave a batch, and the lengths of the first ones stay
    @@ overlap _Batch.keep
    - [self.lens[row] for row in rows]
    + self.lens[: len(rows)]
merge-forgets-lengths
    a request that joins the running batch is as long there as the one before it
    @@ overlap _Batch.merge
    - self.lens = self.lens + other.lens
    + self.lens = self.lens + (self.lens[-1:] * len(other.lens) or other.lens)
chunk-joins
    a request whose prompt goes on joins those that decode
    @@ overlap OverlapEngine._join
    - number != last.middle
    + True
who-left-decodes
    a request that ended with the last results stays in the running batch
    @@ overlap OverlapEngine._join
    - self._stays(number, running.entries[row])
    + True
abort-in-flight-is-lost [abort]
    a request that is aborted while a batch with it is in flight goes on
    @@ overlap OverlapEngine.process
    - number in self._ending
    + False
abort-outlives-its-request [abort]
    a request ends with its first token because one that had its number was aborted
    @@ overlap OverlapEngine.finish
    - self._ending.discard(request)
ends-a-token-late
    a request that has all its tokens with the results in flight gets one more
    @@ overlap OverlapEngine.process
    - len(entry.tokens) >= self._limits[number]
    + len(entry.tokens) > self._limits[number]
""",
)

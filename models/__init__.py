"""The reference model: what the memory of a hybrid KV cache must be after each event.

Pure Python on the standard library. It knows nothing of targets. It adopts the slots that a target hands out; from then
on it predicts the translation of every loc, and the owner and the content of every slot.
"""

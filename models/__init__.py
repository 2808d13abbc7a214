"""The reference model: what the memory of a hybrid KV cache must be after each event.

Pure Python on the standard library. It knows nothing of targets: it adopts the slots a target hands
out and from then on says what every loc translates to, who owns every slot and what every slot holds.
"""

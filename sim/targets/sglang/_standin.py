import torch
from staleloc.sim.targets.base import Rows, V_MARK
WIDTH = 4
def encode(tags, dtype):
    t = torch.tensor(tags, dtype=torch.int64)
    def rows(t):
        return torch.stack([(t >> s) & 0xFFFF for s in (0, 16, 32, 48)], -1).to(dtype).unsqueeze(1)
    return rows(t), rows(t + V_MARK)
def decode(k, v):
    def tags(r):
        r = r.reshape(-1, 4).to(torch.int64)
        return (r[:, 0] | r[:, 1] << 16 | r[:, 2] << 32 | r[:, 3] << 48).tolist()
    return Rows(tags(k), tags(v))
class Arena:
    def __init__(self, size=256): self.buf = torch.zeros(size, dtype=torch.int64)
    def place(self, locs, storage, offset):
        t = torch.tensor(locs, dtype=torch.int64)
        if storage == "fresh": return t
        n = len(locs); self.buf[offset:offset+n] = t
        return self.buf[offset:offset+n]
    def view(self, locs):
        n=len(locs); self.buf[-n:] = torch.tensor(locs, dtype=torch.int64)
        return self.buf[-n:]

"""A script as PyTorch's own pages have it, written for torchrun and not for us: DistributedDataParallel on random data.

    ddp_train.py EPOCHS

It saves after each epoch, and goes on from what it finds.
"""

import os
import signal
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

POINTS, BATCH = 256, 32


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))  # each epoch is saved
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(1)
    torch.set_num_threads(1)
    x = torch.randn(POINTS, 8, dtype=torch.float64)
    y = x @ torch.arange(8.0, dtype=torch.float64).unsqueeze(1)
    model = torch.nn.Linear(8, 1).double()
    path, first = os.path.join(os.environ["BOURSE_CHECKPOINT"], "model.pt"), 0
    if os.path.exists(path):
        saved = torch.load(path)
        model.load_state_dict(saved["model"])
        first = saved["epoch"]
    ddp = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.05)
    for epoch in range(first, int(sys.argv[1])):
        for at in range(0, POINTS, BATCH):
            mine = slice(at + rank * BATCH // world, at + (rank + 1) * BATCH // world)
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(ddp(x[mine]), y[mine])
            loss.backward()
            optimizer.step()
        time.sleep(float(os.environ.get("PAUSE", "0")))
        if rank == 0:
            torch.save({"model": model.state_dict(), "epoch": epoch + 1}, path + ".new")
            os.replace(path + ".new", path)
            print("epoch", epoch + 1, flush=True)
    whole = torch.nn.functional.mse_loss(model(x), y).item()
    if rank == 0:
        print(f"loss {whole:.12e} on {world} from {first}", flush=True)
    dist.destroy_process_group()


main()

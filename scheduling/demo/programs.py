"""The operator's programs in the demonstration: one whose parameters can be chosen, and one as PyTorch has it."""

from __future__ import annotations

from typing import Any

from scheduling.programs.catalogue import ALL_REDUCE, INDEPENDENT, RESTART
from scheduling.programs.templates import TEMPLATES

FIT = """\
#!/bin/bash -eu
# Fits a line to random points in plain Python. It saves after every step and tells its loss.
python3 - <<'PYTHON'
import json, os, random, time

folder = os.environ["BOURSE_CHECKPOINT"]
steps, rate = int(os.environ["BOURSE_PARAMETER_STEPS"]), float(os.environ["BOURSE_PARAMETER_RATE"])
state = os.path.join(folder, f"state-{os.environ['BOURSE_RANK']}.json")  # all workers have this folder
step, w = json.load(open(state)) if os.path.exists(state) else (0, 0.0)
points = [(x / 64, 3 * x / 64) for x in range(64)]
with open(os.environ["BOURSE_PROGRESS"], "a", buffering=1) as progress:
    while step < steps:
        x, y = random.choice(points)
        w -= rate * 2 * (w * x - y) * x
        step += 1
        loss = sum((w * x - y) ** 2 for x, y in points) / len(points)
        progress.write(json.dumps({"step": step, "of": steps, "loss": loss}) + "\\n")
        with open(state + ".new", "w") as file:
            json.dump((step, w), file)
        os.replace(state + ".new", state)
        time.sleep(0.05)
print(f"w = {w:.3f} after {step} steps")
PYTHON
"""
DDP = """\
#!/bin/bash -eu
# DistributedDataParallel as in any tutorial. It needs PyTorch on the servers.
python3 - <<'PYTHON'
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

gpu = torch.cuda.is_available()
dist.init_process_group("nccl" if gpu else "gloo")
device = torch.device("cuda", 0) if gpu else torch.device("cpu")
model = DistributedDataParallel(torch.nn.Linear(8, 1).to(device))
optimizer = torch.optim.SGD(model.parameters(), lr=float(os.environ["BOURSE_PARAMETER_RATE"]))
for step in range(int(os.environ["BOURSE_PARAMETER_STEPS"])):
    x = torch.randn(64, 8, device=device)
    loss = (model(x) - x.sum(dim=1, keepdim=True)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if dist.get_rank() == 0 and step % 10 == 9:
        print(f"step {step + 1}: loss {loss.item():.4f}", flush=True)
dist.destroy_process_group()
PYTHON
"""


def _parameters(steps: int, rate: float) -> list[dict[str, Any]]:
    return [
        {
            "name": "steps",
            "kind": "whole",
            "default": steps,
            "least": 1,
            "most": 100_000,
            "title": "Steps",
            "help": "How many in all.",
        },
        {
            "name": "rate",
            "kind": "number",
            "default": rate,
            "least": 0,
            "most": 10,
            "title": "Learning rate",
            "help": "How far a step goes.",
        },
    ]


PROGRAMS: tuple[dict[str, Any], ...] = (
    TEMPLATES["script"],
    {
        "name": "fit-a-line",
        "title": "Fit a line",
        "description": "Plain Python on random points, in a minute: for a first try.",
        "shape": INDEPENDENT,
        "script": FIT,
        "parameters": _parameters(400, 0.5),
        "resize": RESTART,
    },
    {
        "name": "torch-ddp",
        "title": "DistributedDataParallel",
        "description": "A PyTorch script on all workers of the job. It needs PyTorch on the servers.",
        "shape": ALL_REDUCE,
        "script": DDP,
        "parameters": _parameters(100, 0.1),
        "resize": RESTART,
    },
)

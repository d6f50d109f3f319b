"""Scripts that are read, and run with what stands after their first line, as an engine starts them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from scheduling.programs.sbatch import Script, read
from scheduling.programs.sbatch.beginning import beginning, whole_text
from tests.patience import PATIENCE

HEAD = "#!/bin/bash\n#SBATCH --time=10 --gpus-per-node=2 --nodes=2\n"
RING = {
    "MASTER_ADDR": "n7", "MASTER_PORT": "4000", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "1", "RANK": "1",
    "NODE_RANK": "1", "LOCAL_RANK": "0", "BOURSE_HOSTS": "n7,n8", "BOURSE_ENDS_AT": "1800000000",
}  # fmt: skip
PATH = "/usr/bin:/bin"
# Stands where launchers would.
LAUNCHER = "import json, sys\nprint(json.dumps([__spec__.name, *sys.argv[1:]]))\n"
PACKAGES = {
    "torch.distributed": ("run", "launch"), "accelerate.commands": ("launch",), "deepspeed.launcher": ("launch",),
}  # fmt: skip


def script(body: str, head: str = HEAD) -> Script:
    answer = read(head + body)
    assert isinstance(answer, Script), answer
    return answer


def ran(
    folder: Path, body: str, head: str = HEAD, gpus: int = 2, **environment: str
) -> subprocess.CompletedProcess[str]:
    """As an engine starts it: by `bash -eu` and a file."""
    for package, modules in PACKAGES.items():
        place = folder.joinpath(*package.split("."))
        place.mkdir(parents=True, exist_ok=True)
        for name, text in (("../__init__", ""), ("__init__", ""), *((module, LAUNCHER) for module in modules)):
            (place / f"{name}.py").write_text(text)
    if not (python := folder / "bin" / "python").exists():  # not every machine has one of this name
        python.parent.mkdir(exist_ok=True)
        python.symlink_to(shutil.which("python3", path=PATH) or sys.executable)
    lines = beginning(script(body, head), "train", "INDEX", gpus)
    (folder / "script.sh").write_text(whole_text(head + body, lines))
    variables = {"PATH": f"{PATH}:{python.parent}", "HOME": "/home/job", "PYTHONPATH": str(folder), "USER": "mira"}
    return subprocess.run(
        ["bash", "-eu", str(folder / "script.sh")],
        env=variables | environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )

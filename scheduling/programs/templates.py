"""Templates of programs, to be copied and changed. Nothing has to be installed for them until a job uses one."""

from __future__ import annotations

from typing import Any

from scheduling.programs.catalogue import ALL_REDUCE, EACH_GPU, INDEPENDENT, PARAMETER_SERVER, RESTART

FILE = {
    "name": "file",
    "kind": "text",
    "default": "train.py",
    "title": "File",
    "help": "The Python file to run, from the folder of the archive.",
    "pattern": "[A-Za-z0-9_][A-Za-z0-9_./-]*",
}
SCRIPT = """\
#!/bin/bash
# Any bash script. What it prints is the job's log; what it leaves in $BOURSE_CHECKPOINT is there when it starts again.
echo "member $BOURSE_RANK of job $BOURSE_JOB, started $BOURSE_RESTART times before"
python3 -c "import time; print('ends in', int($BOURSE_ENDS_AT - time.time()), 'seconds')"
"""

TEMPLATES: dict[str, dict[str, Any]] = {
    "torchrun": {
        "name": "torchrun",
        "title": "PyTorch, all-reduce",
        "description": "A script that torchrun would start: one process for each GPU, each told what env:// reads.",
        "shape": ALL_REDUCE,
        "command": ["python3", "-u", "{file}"],
        "processes_per_worker": EACH_GPU,
        "parameters": [FILE],
        "resize": RESTART,
    },
    "script": {
        "name": "script",
        "title": "Bash script",
        "description": "Any bash script. The members of a job know nothing of each other.",
        "shape": INDEPENDENT,
        "script": SCRIPT,
        "resize": RESTART,
    },
    "ps-env": {
        "name": "ps-env",
        "title": "Parameter servers by environment variables",
        "description": "One file for both roles: BOURSE_MEMBERS and TF_CONFIG say who is where, BOURSE_ROLE the role.",
        "shape": PARAMETER_SERVER,
        "command": ["python3", "-u", "{file}"],
        "parameters": [FILE],
    },
}

"""`python -m scheduling.engines.launcher.watch ROOT HOME KEY` watches over one gang of this machine to its end."""

from __future__ import annotations

import sys
from pathlib import Path

from scheduling.engines.launcher import files
from scheduling.engines.launcher.files import Folder
from scheduling.engines.launcher.parts import GangPart
from scheduling.engines.launcher.program_supervisor import ProgramSupervisor
from scheduling.engines.launcher.supervisor import Supervisor
from scheduling.engines.launcher.trainer_supervisor import TrainerSupervisor


def supervisor_of(folder: Folder, part: GangPart | None = None) -> Supervisor:
    """Return the supervisor of a gang, or of a part of it, for the kind of program that its plan starts."""
    own = (files.read(folder.plan) or {}).get("own")
    return ProgramSupervisor(folder, part) if own else TrainerSupervisor(folder, part)


def main(root: str, home: str, key: str) -> None:
    supervisor_of(Folder(Path(root), home, key)).run()


if __name__ == "__main__":
    main(*sys.argv[1:])

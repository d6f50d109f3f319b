"""Slurm's batch scripts: what their #SBATCH lines request, and what becomes of each line here."""

from scheduling.programs.sbatch.lines import IGNORED, NOT_KEPT, UNDERSTOOD, LineRefusal, OptionLine
from scheduling.programs.sbatch.reading import MOST_CHARACTERS, Script, read

__all__ = [
    "IGNORED",
    "MOST_CHARACTERS",
    "NOT_KEPT",
    "UNDERSTOOD",
    "LineRefusal",
    "OptionLine",
    "Script",
    "read",
]

"""The GPUs of this machine that jobs may use, as the operator names them. A gang's supervisor takes those that it needs
for as long as it needs them (`launcher.gpus`)."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from scheduling.engines.base import Counts, WrongEngine
from scheduling.engines.launcher.gpus import DRIVER, Gpu
from scheduling.engines.plans import round_up
from scheduling.programs.sbatch.request import GPUS

ALL = "all"
INFORMATION = Path("/proc/driver/nvidia/gpus")  # a folder of each GPU, by its place on the bus
LIST = ("--query-gpu=pci.bus_id,uuid", "--format=csv,noheader")
LIST_SECONDS = 60.0  # a driver that has nothing to do yet may take long to begin
_PLACE = 12  # characters of a place on the bus, such as 0000:3b:00.0; commands write more zeros before it


def gpus_of(words: str) -> tuple[Gpu, ...]:
    """Return the GPUs that the operator names: `all`, or UUIDs and numbers of devices (0 is /dev/nvidia0), with commas.
    Raises `WrongEngine` where this machine has no such GPU."""
    return _named(words, _gpus_here()) if words else ()


def _gpus_here() -> list[Gpu]:
    if (program := shutil.which("nvidia-smi")) is None:
        raise WrongEngine("LOCAL_GPUS names GPUs, and there is no nvidia-smi, which knows those of this machine.")
    try:
        done = subprocess.run([program, *LIST], capture_output=True, text=True, timeout=LIST_SECONDS, check=True)
        return list(read_list(done.stdout, INFORMATION))
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise WrongEngine(f"The GPUs of this machine cannot be listed by {program}: {error}.") from None


def read_list(text: str, information: Path) -> Iterable[Gpu]:
    """Yield the GPUs in a list of the command, a place on the bus and a UUID on each line; raises `OSError` and
    `ValueError`. Their devices are named by the driver's files below `information`."""
    for line in text.splitlines():
        place, _, name = (part.strip() for part in line.partition(","))
        about = (information / place[-_PLACE:].lower() / "information").read_text()
        if (minor := re.search(r"^Device Minor:\s*(\d+)$", about, re.MULTILINE)) is None:
            raise ValueError(f"no device of {name} is known")
        yield Gpu(name, f"{DRIVER}{minor[1]}")


def _named(words: str, there: Sequence[Gpu]) -> tuple[Gpu, ...]:
    if words == ALL:
        return tuple(there)
    by_word = {each.name: each for each in there} | {each.file.removeprefix(DRIVER): each for each in there}
    wanted = dict.fromkeys(word.strip() for word in words.split(","))
    if missing := [word for word in wanted if word not in by_word]:
        names = ", ".join(f"{each.file.removeprefix(DRIVER)} ({each.name})" for each in there)
        raise WrongEngine(f"LOCAL_GPUS names {missing[0]!r}, and this machine has {names or 'no GPU'}.")
    return tuple(dict.fromkeys(by_word[word] for word in wanted))


def gpus_each(amounts: Mapping[str, Mapping[str, float]]) -> dict[str, int]:
    """Return by role how many GPUs a member needs that takes these amounts of resources."""
    return {role: round_up(sum(takes.get(name, 0.0) for name in GPUS)) for role, takes in amounts.items()}


def gpus_sold(sold: Counts) -> int:
    """Return how many GPUs the pools of this engine sell, on all of its servers."""
    return sum(units for resources in sold.values() for name, units in resources.items() if name in GPUS)

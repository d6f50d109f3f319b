"""What a gang runs with: a Python, the code of the programs, and the files that it has to read for that.

The code is always a copy of the few modules that programs name, so that a gang needs to read no folder of ours.
Python is our own where the gang's account may read it, else a copy as well (decision 0193).
"""

from __future__ import annotations

import compileall
import hashlib
import importlib.metadata
import importlib.util
import os
import re
import shutil
import sys
import sysconfig
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from scheduling.engines.local.copies import made_once
from scheduling.engines.programs import RegisteredProgram

LAUNCH = (
    "scheduling.engines.launcher.confine",
    "scheduling.engines.launcher.launch",
    "scheduling.engines.launcher.strangers",
    "scheduling.engines.launcher.unpack",
    "scheduling.programs.archives",
    "scheduling.programs.fields",
)  # the modules that start each process of a gang
# What a gang may read of the system: libraries and commands, what compilers include, and what programs look up: names
# of accounts, names of servers, and authorities that sign certificates. No other configuration, no keys, no logs, no
# home.
SYSTEM = (
    "/bin", "/sbin", "/lib", "/lib64", "/usr/bin", "/usr/sbin", "/usr/lib", "/usr/lib64", "/usr/libexec",
    "/usr/include", "/usr/share", "/usr/local/bin", "/usr/local/lib", "/usr/local/lib64", "/usr/local/include",
    "/usr/local/share",
    "/etc/alternatives", "/etc/ld.so.cache", "/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/pki/tls/certs",
    "/etc/pki/ca-trust/extracted", "/etc/passwd", "/etc/group", "/etc/hosts", "/etc/hostname", "/etc/host.conf",
    "/etc/resolv.conf", "/etc/nsswitch.conf", "/etc/gai.conf", "/etc/services", "/etc/protocols", "/etc/localtime",
    "/etc/gitconfig", "/etc/magic", "/etc/mime.types", "/dev/zero", "/dev/random", "/dev/urandom",
    "/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/loadavg", "/proc/version", "/proc/sys/kernel",
    "/proc/sys/vm", "/sys/devices/system/cpu", "/sys/devices/system/node", "/sys/fs/cgroup",
    # A driver and a compiler for GPUs, where they are not among the system's own.
    "/usr/local/nvidia", "/usr/local/cuda", *sorted(map(str, Path("/usr/local").glob("cuda-*"))),
    # PyTorch's gloo first lists the devices of the machine, to know which networks are fast.
    "/sys/bus/pci/devices", *sorted(map(str, Path("/sys/devices").glob("pci*"))),
)  # fmt: skip
PARTS_OF_PYTHON = ("bin", "lib", "lib64", "include", "share")  # also what is installed beside it: torchrun, headers
CLIENT = Path("client", "bourse_progress.py")
SAFE = {"PYTHONSAFEPATH": "1"}  # load no code from a folder into which the gang writes
NOT_COPIED = shutil.ignore_patterns(
    "site-packages", "dist-packages", "test", "tests", "idlelib", "tkinter", "turtledemo", "lib2to3", "ensurepip",
    "config-*",
)  # fmt: skip


@dataclass(frozen=True)
class Surroundings:
    """What a gang runs with. `environment` tells Python where code and libraries are; `readable` are the files and
    folders that it cannot do without."""

    python: str
    environment: Mapping[str, str]
    readable: tuple[str, ...]


def ours(code: Path, programs: Iterable[RegisteredProgram]) -> Surroundings:
    """Return surroundings with the Python that runs us."""
    python = Path(sys.executable)
    site = {str(_place_of(name)) for program in programs for name in program.distributions}
    prefixes = [prefix / name for prefix in (Path(sys.prefix), Path(sys.base_prefix)) for name in PARTS_OF_PYTHON]
    parts = [str(part) for part in (code, python.resolve(), Path(sys.prefix) / "pyvenv.cfg", *prefixes)]
    return Surroundings(str(python), SAFE | {"PYTHONPATH": str(code)}, _there([*parts, *sorted(site), *SYSTEM]))


def copied(code: Path, programs: Iterable[RegisteredProgram], shared: Path) -> Surroundings:
    """Return surroundings with a copy of that Python in `shared`. The copy is made on first use, of its library and
    the distributions of the programs."""
    distributions = sorted({name for program in programs for name in program.distributions})
    executable = Path(sys.executable).resolve()
    stat = executable.stat()
    about = ["with python3", sys.version, executable, stat.st_mtime_ns, stat.st_size]
    about += [f"{name} {importlib.metadata.version(name)}" for name in distributions]
    target = shared / f"python-{_short_hash(about)}"
    made_once(target, lambda copy: _copy_python(copy, executable, distributions))
    python = str(target / "bin" / executable.name)
    path = f"{code}{os.pathsep}{target / 'site'}"
    environment = SAFE | {"PYTHONPATH": path, "LD_LIBRARY_PATH": str(target / "lib")}
    return Surroundings(python, environment, _there([str(code), str(target), *SYSTEM]))


def code_for(programs: Iterable[RegisteredProgram], base: Path, folder: Path) -> Path:
    """Make a copy below `folder` of the modules that the programs need, and of the one with which programs of the
    catalogue report. `base` has the originals."""
    modules = {*LAUNCH, *(module for program in programs for module in (program.module, *program.modules))}
    files = sorted({file for module in modules for file in _files_of(module, base)})
    client = base / CLIENT
    contents = [f"{file} {hashlib.sha256((base / file).read_bytes()).hexdigest()}" for file in files]
    contents.append(hashlib.sha256(client.read_bytes()).hexdigest())

    def fill(copy: Path) -> None:
        for file in files:
            (copy / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(base / file, copy / file)
        shutil.copyfile(client, copy / client.name)
        compileall.compile_dir(copy, quiet=2)  # a gang's processes may not write here, and would each compile it again

    return made_once(folder / _short_hash([sys.version, *contents]), fill)


def _files_of(module: str, base: Path) -> Iterable[Path]:
    """Yield a module's file, or all files of a package, and the `__init__.py` of the packages above it, as paths
    relative to `base`."""
    place = Path(*module.split("."))
    if (base / place).is_dir():
        yield from (file.relative_to(base) for file in (base / place).rglob("*.py"))
    elif (base / place).with_suffix(".py").exists():
        yield place.with_suffix(".py")
    for parent in place.parents[:-1]:
        if (base / parent / "__init__.py").exists():
            yield parent / "__init__.py"


def _copy_python(copy: Path, executable: Path, distributions: Iterable[str]) -> None:
    (copy / "bin").mkdir()
    (copy / "lib").mkdir()
    shutil.copy2(executable, copy / "bin" / executable.name)
    if executable.name != "python3":
        (copy / "bin" / "python3").symlink_to(executable.name)  # many programs call Python by this name
    if library := _shared_library():
        shutil.copy2(library, copy / "lib" / library.name)
    for name in ("stdlib", "platstdlib"):
        source = Path(sysconfig.get_path(name, vars={"base": sys.base_prefix, "platbase": sys.base_exec_prefix}))
        target = copy / source.relative_to(sys.base_prefix)
        if not target.exists():
            shutil.copytree(source, target, ignore=NOT_COPIED)
    for name in distributions:
        for file in importlib.metadata.files(name) or ():
            source, target = Path(str(file.locate())), copy / "site" / file
            if "tests" not in file.parts and ".." not in file.parts and source.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, target)


def _shared_library() -> Path | None:
    """Return the shared library of Python as it is mapped into this process, or None where Python is all in one
    file."""
    try:
        maps = Path("/proc/self/maps").read_text()
    except OSError:
        return None
    mapped = re.search(r"(/\S*/libpython[^/\s]*\.so[^/\s]*)$", maps, re.MULTILINE)
    return None if mapped is None else Path(mapped[1])


def _place_of(distribution: str) -> Path:
    """Return the folder in which a distribution is installed."""
    return Path(str(importlib.metadata.distribution(distribution).locate_file(""))).resolve()


def _there(paths: Iterable[str]) -> tuple[str, ...]:
    """Return the paths that exist, each once, without those that have a line break: they are listed line by line."""
    return tuple(path for path in dict.fromkeys(paths) if os.path.exists(path) and len(path.splitlines()) == 1)


def _short_hash(about: Iterable[object]) -> str:
    return hashlib.sha256("\n".join(map(str, about)).encode()).hexdigest()[:12]

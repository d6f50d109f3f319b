"""`launch FOLDER UID CPU_SECONDS BARE LIMITS READABLE PORTS BESIDE DEVICES ALONE TEMPORARY HIDDEN COMMAND...`, by
Python.

Give up all rights but what these arguments allow, and become COMMAND. UID is `-` where the account stays; BARE is 1
where root keeps no rights; LIMITS is `name=number,...`; READABLE are paths, one a line; PORTS are numbers with commas,
or `any`; BESIDE are folders, one a line, in which it may write as well; DEVICES are names below /dev that it may open,
one a line, where it has GPUs; ALONE is 1 where nothing but these has a name for it; TEMPORARY is the folder in FOLDER
that it gets as /tmp, or empty; HIDDEN are folders and files, one a line, that have no name for it.

Where BOURSE_TOLD names two descriptors, COMMAND's environment is read from the first, and the reason why it could not
be started is written into the second. So a tenant's variables are never those of a process that still has our rights.

Where it names several such pairs, each with a descriptor for what is written, as `report;variables,fault,output;...`,
COMMAND is started once for each, in the same namespaces and behind the same walls. Their process ids are written into
`report`, line by line, or `-` and the number of an error. They are the children of our parent as soon as we end, which
has to be their subreaper.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Mapping, Sequence

from scheduling.engines.launcher.confine import PR_SET_PDEATHSIG, give_up, prctl

DESCRIPTORS = "BOURSE_TOLD"
SIGKILL = 9  # to import `signal` would load more than all the rest
UNPACK_IN_PACKAGE = ("-S", "-m", "scheduling.engines.launcher.unpack")
IN_PACKAGE = ("-S", "-m", "scheduling.engines.launcher.launch")  # how Python starts us where the package is installed
PLACE = 12  # arguments before the command
ANY = "any"
NEEDED = ("address_space_mb", "file_mb", "open_files", "nice", "threads", "memory_mb")


def words(
    folder: str,
    uid: int | None,
    cpu_seconds: int,
    limits: dict[str, float],
    *,
    bare: bool,
    readable: Iterable[str] = (),
    ports: Iterable[int] | None = (),
    beside: Iterable[str] = (),
    devices: Iterable[str] = (),
    alone: bool = False,
    temporary: str = "",
    hidden: Iterable[str] = (),
    launch: Iterable[str] = IN_PACKAGE,
) -> list[str]:
    """Return what follows the Python interpreter on the command line, before the command itself. `launch` are the words
    by which Python starts this module."""
    limits_text = ",".join(f"{name}={limits[name]}" for name in NEEDED)
    account = "-" if uid is None else str(uid)
    listening = ANY if ports is None else ",".join(map(str, ports))
    place = [folder, account, str(cpu_seconds), str(int(bare)), limits_text, "\n".join(readable), listening]
    return [*launch, *place, "\n".join(beside), "\n".join(devices), str(int(alone)), temporary, "\n".join(hidden)]


def written_environment(variables: Mapping[str, str]) -> bytes:
    """Return an environment in the form in which it is read from the first descriptor of `BOURSE_TOLD`."""
    return "\0".join(f"{name}={value}" for name, value in variables.items()).encode("utf-8", "surrogateescape")


def main(*line: str) -> None:
    place, command, parent = line[:PLACE], line[PLACE:], os.getppid()
    words = [part for part in os.environ.get(DESCRIPTORS, "").split(";") if part]
    if not words:
        _give_up(*place)
        _end_with(parent)
        os.execv(command[0], command)  # noqa: S606  the command is a list, and no shell reads it
    descriptors = [tuple(map(int, part.split(","))) for part in words]
    for descriptor in (each for part in descriptors for each in part):
        os.set_inheritable(descriptor, False)
    if len(descriptors) > 1:
        _start_several(descriptors[0][0], descriptors[1:], parent, place, command)
        os._exit(0)
    ((variables, fault),) = descriptors
    environment = _read_environment(variables)
    try:
        _give_up(*place)
        _end_with(parent)
        os.execvpe(command[0], command, environment)  # noqa: S606
    except OSError as error:
        os.write(fault, str(error.errno).encode())
        sys.exit(127)


def _start_several(
    report: int, several: Sequence[Sequence[int]], parent: int, place: tuple[str, ...], command: tuple[str, ...]
) -> None:
    """Start the command once for each of the descriptors: variables, fault, output."""
    environments, launcher = [_read_environment(variables) for variables, _, _ in several], os.getpid()
    try:
        _give_up(*place)
        for (_, fault, output), environment in zip(several, environments):  # noqa: B905  `strict` came with Python 3.10
            if pid := os.fork():
                os.write(report, f"{pid}\n".encode())
                continue
            try:
                os.dup2(output, 1)
                os.dup2(output, 2)
                while os.getppid() == launcher:  # it ends when the others are started
                    time.sleep(0.001)
                _end_with(parent)
                os.execvpe(command[0], command, environment)  # noqa: S606
            except OSError as error:
                os.write(fault, str(error.errno).encode())
            os._exit(127)
    except OSError as error:
        os.write(report, f"-{error.errno}\n".encode())


def _read_environment(variables: int) -> dict[bytes, bytes]:
    with open(variables, "rb") as file:
        return dict(pair.split(b"=", 1) for pair in file.read().split(b"\0"))


def _end_with(parent: int) -> None:
    """End us when our supervisor ends. This comes last, as a change of account would undo it."""
    prctl(PR_SET_PDEATHSIG, SIGKILL)
    if os.getppid() != parent:
        sys.exit("The parent ended before its child began.")


def _give_up(
    folder: str,
    uid: str,
    cpu_seconds: str,
    bare: str,
    limits: str,
    readable: str,
    ports: str,
    beside: str,
    devices: str,
    alone: str,
    temporary: str,
    hidden: str,
) -> None:
    numbers = {name: int(number) for name, number in (pair.split("=") for pair in limits.split(","))}
    os.chdir(folder)
    give_up(
        numbers,
        folder,
        None if uid == "-" else int(uid),
        int(cpu_seconds),
        bare=bare == "1",
        readable=readable.splitlines(),
        ports=None if ports == ANY else [int(port) for port in ports.split(",") if port],
        beside=beside.splitlines(),
        devices=devices.splitlines(),
        alone=alone == "1",
        temporary=temporary,
        hidden=hidden.splitlines(),
    )


if __name__ == "__main__":
    main(*sys.argv[1:])

"""`launch FOLDER UID CPU_SECONDS BARE LIMITS READABLE PORTS BESIDE DEVICES ALONE TEMPORARY COMMAND...`, by Python.

Gives up all but what these allow and becomes COMMAND. UID is `-` where the account stays; BARE is 1 where root keeps
no rights; LIMITS is `name=number,...`; READABLE are paths, each a line, PORTS numbers with commas, or `any`;
BESIDE are folders, each a line, in which it may write as well; DEVICES is 1 where it may use GPUs; ALONE where
nothing else than these has a name for it; TEMPORARY is the folder in FOLDER that it is to find as /tmp, or nothing.

Where BOURSE_TOLD names two descriptors, COMMAND's environment is read from one, and why it could not be started goes
into the other. A stranger's variables are thus never those of a process that still has our rights.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping

from scheduling.engines.launcher.confine import PR_SET_PDEATHSIG, give_up, prctl

DESCRIPTORS = "BOURSE_TOLD"
SIGKILL = 9  # `signal` would load more than all the rest
UNPACK_IN_PACKAGE = ("-S", "-m", "scheduling.engines.launcher.unpack")
IN_PACKAGE = ("-S", "-m", "scheduling.engines.launcher.launch")  # how Python begins us where the package is
PLACE = 11  # words before the command
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
    devices: bool = False,
    alone: bool = False,
    temporary: str = "",
    launch: Iterable[str] = IN_PACKAGE,
) -> list[str]:
    """What follows the Python interpreter on the command line, before the command itself. `launch`: how it finds us."""
    limits_text = ",".join(f"{name}={limits[name]}" for name in NEEDED)
    account = "-" if uid is None else str(uid)
    listening = ANY if ports is None else ",".join(map(str, ports))
    place = [folder, account, str(cpu_seconds), str(int(bare)), limits_text, "\n".join(readable), listening]
    return [*launch, *place, "\n".join(beside), str(int(devices)), str(int(alone)), temporary]


def written_environment(variables: Mapping[str, str]) -> bytes:
    """As `BOURSE_TOLD` has it."""
    return "\0".join(f"{name}={value}" for name, value in variables.items()).encode("utf-8", "surrogateescape")


def main(*line: str) -> None:
    place, command, parent = line[:PLACE], line[PLACE:], os.getppid()
    plan_text = os.environ.get(DESCRIPTORS, "")
    if not plan_text:
        _give_up(parent, *place)
        os.execv(command[0], command)  # noqa: S606  the command is a list, and no shell reads it
    variables, fault = map(int, plan_text.split(","))
    with open(variables, "rb") as file:
        environment = dict(pair.split(b"=", 1) for pair in file.read().split(b"\0"))
    os.set_inheritable(fault, False)
    try:
        _give_up(parent, *place)
        os.execvpe(command[0], command, environment)  # noqa: S606
    except OSError as error:
        os.write(fault, str(error.errno).encode())
        sys.exit(127)


def _give_up(
    parent: int,
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
        devices=devices == "1",
        alone=alone == "1",
        temporary=temporary,
    )
    # Last: a change of account would forget it. Whoever watches over us is gone: so are we.
    prctl(PR_SET_PDEATHSIG, SIGKILL)
    if os.getppid() != parent:
        sys.exit("The parent ended before its child began.")


if __name__ == "__main__":
    main(*sys.argv[1:])

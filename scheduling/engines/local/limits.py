"""What processes of a program may take, and how a process gives up everything else before it becomes the program.

Landlock (Linux 5.13 and later) lets anybody, not only root, give up writing outside some folders for good.
"""

from __future__ import annotations

import ctypes
import os
import resource
import struct
from collections.abc import Iterable
from dataclasses import dataclass

MEGABYTE = 2**20
PR_SET_PDEATHSIG, PR_SET_NO_NEW_PRIVS, PR_SET_CHILD_SUBREAPER = 1, 38, 36
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
# Access rights of Landlock by the version that brought them: everything that writes, makes, removes or renames.
_WRITES = 0b1_1111_1111_0010  # WRITE_FILE (bit 1), REMOVE_DIR ... MAKE_SYM (bits 4 to 12)
_REFER, _TRUNCATE = 1 << 13, 1 << 14
_WRITE_FILE = 1 << 1


@dataclass(frozen=True)
class Limits:
    """Of each process, and of a gang together (`processes`, `memory_mb`, `disk_mb`, `log_mb`)."""

    address_space_mb: int = 2_048
    file_mb: int = 128
    open_files: int = 256
    nice: int = 10
    processes: int = 96
    memory_mb: int = 2_048
    disk_mb: int = 256
    log_mb: int = 4


def give_up(limits: Limits, folder: str, uid: int | None, cpu_seconds: int) -> None:
    """Of the calling process and all that come of it, for good."""
    for what, most in (
        (resource.RLIMIT_AS, limits.address_space_mb * MEGABYTE),
        (resource.RLIMIT_FSIZE, limits.file_mb * MEGABYTE),
        (resource.RLIMIT_NOFILE, limits.open_files),
        (resource.RLIMIT_CPU, cpu_seconds),
        (resource.RLIMIT_CORE, 0),
    ):
        hard = resource.getrlimit(what)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(what, (most, most))
    os.nice(limits.nice)
    if uid is not None:
        # The kernel counts threads of an account. Our own account has others; this one has this gang alone.
        resource.setrlimit(resource.RLIMIT_NPROC, (2 * limits.processes, 2 * limits.processes))
        os.setgroups([])
        os.setgid(uid)
        os.setuid(uid)
    write_only_below([folder], files=["/dev/null"])


def prctl(option: int, value: int) -> int:
    """The system call; 0 where it worked."""
    return int(ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0))


def landlock_version() -> int:
    """0: not there."""
    return max(0, int(ctypes.CDLL(None, use_errno=True).syscall(_CREATE_RULESET, None, 0, 1)))


def write_only_below(folders: Iterable[str], files: Iterable[str] = ()) -> bool:
    """From now on write nowhere else, also no process that comes of this one. False: this kernel cannot."""
    version = landlock_version()
    if not version:
        return False
    system = ctypes.CDLL(None, use_errno=True).syscall
    handled = _WRITES | (_REFER if version >= 2 else 0) | (_TRUNCATE if version >= 3 else 0)
    rules = system(_CREATE_RULESET, ctypes.create_string_buffer(struct.pack("<Q", handled), 8), 8, 0)
    if rules < 0:
        return False
    for path, rights in [
        *((folder, handled) for folder in folders),
        *((file, (_WRITE_FILE | _TRUNCATE) & handled) for file in files),
    ]:
        opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
        beneath = ctypes.create_string_buffer(struct.pack("<Qi", rights, opened), 12)
        if system(_ADD_RULE, rules, 1, beneath, 0):
            raise OSError(ctypes.get_errno(), f"no rule for {path}")
        os.close(opened)
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    if system(_RESTRICT_SELF, rules, 0):
        raise OSError(ctypes.get_errno(), "the rules do not hold")
    os.close(rules)
    return True

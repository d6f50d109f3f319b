"""Here a process gives up all rights that a program may not have, before it becomes the program.

With Landlock (Linux 5.13 and later) and filters of system calls (seccomp), any process, not only one of root, can give
up rights for good. The module imports little, since it runs before every process of a gang.
"""

from __future__ import annotations

import ctypes
import os
import resource
import struct
from collections.abc import Iterable, Mapping, Sequence

MEGABYTE = 2**20
PR_SET_PDEATHSIG, PR_SET_NO_NEW_PRIVS, PR_SET_CHILD_SUBREAPER = 1, 38, 36
PR_SET_SECCOMP, PR_CAPBSET_DROP, SECCOMP_MODE_FILTER = 22, 24, 2
CPU_GRACE = 5  # seconds between the signal that a program may handle and the one that kills it
NO_LIMIT = -1
_CAPABILITIES = 64
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_BENEATH, _AT_PORT = 1, 2  # kinds of rules
# Access rights of Landlock, by the version that introduced them: all that write, make, remove or rename.
_WRITES = 0b1_1111_1111_0010  # WRITE_FILE (bit 1), REMOVE_DIR ... MAKE_SYM (bits 4 to 12)
_REFER, _TRUNCATE = 1 << 13, 1 << 14
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_BIND_TCP = 1 << 0  # version 4
_SCOPES = 0b11  # no abstract sockets and no signals of others (version 6)
PORTS_SINCE = 4
DEVICES_FOLDER = "/dev"
SHARED_MEMORY = "/dev/shm"  # noqa: S108  locks, queues and arrays of several processes are here
FOR_A_TIME = "/tmp"  # noqa: S108  many programs write here by this name
PROCESSES = "/proc"  # with what programs look up of themselves and of the machine
# A process sees those that it may look into: itself and its descendants, as Landlock has it.
_OWN_PROCESSES = b"hidepid=ptraceable"
_NEW_MOUNTS, _NEW_SHARED, _NEW_USERS = 0x0002_0000, 0x0800_0000, 0x1000_0000
# Flags of mounts. With the first, our mounts are not seen by others, but theirs by us (MS_SLAVE and MS_REC).
_NOT_PASSED_ON, _NO_SETUID, _NO_DEVICES, _NO_PROGRAMS = 0x8_4000, 2, 4, 8
_SAME, _READ_ONLY, _LATER, _WITH_ALL_BELOW = 0x5000, 1, 2, 0x8000  # _LATER is one of umount2, the last of mount_setattr
_MOUNT_SETATTR, _PIVOT_ROOT = 442, {"x86_64": 155, "aarch64": 41}
_BEFORE = "/.before"  # the machine's own root is mounted here while a new one is made
_MOST_PARTS = 200  # the most parts of a path, with those of its links

# For each kind of machine: its number in filters; then the calls that send a signal, with the index of the signal among
# their arguments: kill, tkill, tgkill, rt_sigqueueinfo, rt_tgsigqueueinfo, pidfd_send_signal; then those that change
# another process of the same account, with the index of the process id, which is 0 for oneself: prlimit64, setpriority,
# ioprio_set, sched_setscheduler, sched_setparam, sched_setattr; then setpriority and ioprio_set, with the value of the
# first argument that means the whole account.
_CALLS = {
    "x86_64": (
        0xC000003E,
        ((62, 1), (200, 1), (234, 2), (129, 1), (297, 2), (424, 1)),
        ((302, 0), (141, 1), (251, 1), (144, 0), (142, 0), (314, 0)),
        ((141, 2), (251, 3)),
    ),
    "aarch64": (
        0xC00000B7,
        ((129, 1), (130, 1), (131, 2), (138, 1), (240, 2), (424, 1)),
        ((261, 0), (140, 1), (30, 1), (119, 0), (118, 0), (274, 0)),
        ((140, 2), (30, 3)),
    ),
}
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_ALLOW, _REFUSE, _KILL = 0x7FFF_0000, 0x0005_0001, 0x8000_0000  # a refused call returns EPERM
_OTHER_NUMBERS = 0x4000_0000  # from here on the same calls of x86_64 have other numbers (x32)
_SIGKILL = 9


def give_up(
    limits: Mapping[str, int],
    folder: str,
    uid: int | None,
    cpu_seconds: int,
    *,
    bare: bool,
    readable: Sequence[str],
    ports: Sequence[int] | None,
    beside: Sequence[str] = (),
    devices: Sequence[str] = (),
    alone: bool = False,
    temporary: str = "",
    hidden: Sequence[str] = (),
) -> None:
    """Give up the rights of the calling process and all its descendants, for good.

    `bare`: root keeps its name and no rights. `readable`: beside its folder the process can read only these; if empty,
    whatever its account may. It reads all of /proc, too, where it sees no others' processes there. `ports`: it may
    listen only at these; if None, wherever its account may. `beside`: folders in which it may write as well, where its
    account may. `cpu_seconds`: 0 means no limit. `devices`: it has GPUs, and may open these files below /dev, as far as
    their own modes allow it. `alone`: only these folders and what is `readable` have a name for it; raises `OSError`
    where this machine cannot do that. `temporary`: a folder in its own that it gets as /tmp, if the folder exists,
    nothing that it needs is in the machine's /tmp, and the machine can do it. `hidden`: folders and files that have no
    name for it, where the machine can do that.
    """
    opened = [f"{DEVICES_FOLDER}/{name}" for name in devices]
    hides = any(f"{path}/".startswith(f"{FOR_A_TIME}/") for path in (folder, *beside, *readable))
    # The library of CUDA ends where it cannot name its threads, by files of its own process. Who has the name of root
    # can change the whole machine in there, even without root's rights.
    if devices and (uid is not None or os.geteuid() != 0):
        opened.append(PROCESSES)
    end_us_first()
    folders = [folder, *beside]
    places = (folders, readable, opened) if alone else None
    own_temporary = None if hides or not temporary else (folder, temporary)
    if own := own_names(limits["memory_mb"], places, own_temporary, hidden):
        folders += [path for path in own if path != PROCESSES]
        os.chdir(folder)  # by its name, as the folder that we were in may have none any more
    elif alone:
        raise OSError("no names of its own")
    if readable and PROCESSES in own:
        readable = [*readable, PROCESSES]
    _set_limits(limits, cpu_seconds)
    os.nice(limits["nice"])
    if uid is not None:
        # The kernel counts the threads of an account. Our own account has other threads; this one only has the gang's.
        resource.setrlimit(resource.RLIMIT_NPROC, (limits["threads"], limits["threads"]))
        os.setgroups([])
        os.setgid(uid)
        os.setuid(uid)
    elif bare:
        for capability in range(_CAPABILITIES):
            prctl(PR_CAPBSET_DROP, capability)  # the kernel refuses numbers that it does not know, which does no harm
    stay_within(folders, readable, ports, opened)
    never_kill()


def _set_limits(limits: Mapping[str, int], cpu_seconds: int) -> None:
    """Limit memory, files and processor time of this process, never above what it may set for itself."""
    for what, most, hardest in (
        (resource.RLIMIT_AS, limits["address_space_mb"] * MEGABYTE or NO_LIMIT, 0),
        (resource.RLIMIT_FSIZE, limits["file_mb"] * MEGABYTE, 0),
        (resource.RLIMIT_NOFILE, limits["open_files"], 0),
        (resource.RLIMIT_CPU, cpu_seconds or NO_LIMIT, CPU_GRACE),
        (resource.RLIMIT_CORE, 0, 0),
    ):
        if most == NO_LIMIT:
            continue
        hard = resource.getrlimit(what)[1]
        wanted = most + hardest if hard == resource.RLIM_INFINITY else min(most + hardest, hard)
        resource.setrlimit(what, (min(most, wanted), wanted))


def prctl(option: int, value: int) -> int:
    """Make the system call `prctl` and return 0 if it succeeded."""
    return int(ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0))


def end_us_first() -> None:
    """Let the kernel kill us first where the machine runs out of memory, before any process that serves the market."""
    try:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("1000")
    except OSError:
        return  # a machine without this file chooses by size


# Files and ports.


def landlock_version() -> int:
    """Return the version of Landlock that this kernel has, or 0 if it has none."""
    return max(0, int(ctypes.CDLL(None, use_errno=True).syscall(_CREATE_RULESET, None, 0, 1)))


# The folders to write in, the paths to read, and those of devices, which are opened for both.
Places = tuple[Sequence[str], Sequence[str], Sequence[str]]


def own_names(
    most_mb: int, alone: Places | None = None, temporary: tuple[str, str] | None = None, hidden: Sequence[str] = ()
) -> list[str]:
    """Move this process into namespaces of its own. Return the machine's folders that are replaced in them; empty if
    this machine cannot do it. Then nothing was changed, unless `alone` was asked for.

    One namespace is for System V queues and shared memory, which go when its last process ends. The other one is for
    mounts, with a folder for shared memory of `most_mb` megabytes. With `alone`, only these places and /proc have a
    name any more; root gets a /proc in which each process sees its own. `temporary` is a folder and the name of one in
    it that becomes /tmp. Folders that are `hidden` are empty, and files lead nowhere.

    The machine's own folders have what its services and other gangs share, so they stay closed. A program cannot call
    a socket that has no path in its root, nor close such a file to its owner or change its time; no rule about files
    forbids that to a process of the same account. An account that is not root's needs the right to make namespaces for
    this. Some systems let one make them and give no rights in them, and there is no way back: so a child tries first.
    """
    if alone:  # the caller has tried it before, and does not continue without it
        return _names_made(most_mb, alone, temporary, hidden)
    return _names_made(most_mb, alone, temporary, hidden) if has_own_names(most_mb, temporary, hidden) else []


def has_own_names(most_mb: int = 1, temporary: tuple[str, str] | None = None, hidden: Sequence[str] = ()) -> bool:
    """Return whether `own_names` works for this account on this machine, without changing anything."""
    child = os.fork()
    if child == 0:
        os._exit(0 if _names_made(most_mb, None, temporary, hidden) else 1)
    return os.waitpid(child, 0)[1] == 0


def _names_made(
    most_mb: int, alone: Places | None, temporary: tuple[str, str] | None, hidden: Sequence[str]
) -> list[str]:
    replaced = [SHARED_MEMORY]
    system = ctypes.CDLL(None, use_errno=True)
    uid, gid = os.geteuid(), os.getegid()
    if system.unshare(_NEW_MOUNTS | _NEW_SHARED if uid == 0 else _NEW_MOUNTS | _NEW_SHARED | _NEW_USERS):
        return []
    try:
        if uid != 0:  # keep our user and group in the new namespace; the rights that we have in it end with `exec`
            for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
                with open(f"/proc/self/{name}", "w") as file:
                    file.write(text)
        _mount(b"none", "/", None, _NOT_PASSED_ON)
        if alone:
            usual = os.umask(0o022)  # the account that we become has to pass through the folders made here
            if _see_alone(*alone):
                replaced.append(PROCESSES)
            os.umask(usual)
        for path in hidden:
            _hide(path)
        words = f"mode=1777,size={most_mb}m".encode()
        _mount(b"tmpfs", SHARED_MEMORY, b"tmpfs", _NO_SETUID | _NO_DEVICES | _NO_PROGRAMS, words)
    except OSError:
        return []
    if temporary and _bind_temporary(*temporary):
        replaced.append(FOR_A_TIME)
    return replaced


def _hide(path: str) -> None:
    """Mount an empty folder over a folder, and what nobody listens at over a socket. Where we may not look for it, the
    program may not either."""
    if os.path.isdir(path):
        _mount(b"none", path, b"tmpfs", _NO_SETUID | _NO_DEVICES | _NO_PROGRAMS | _READ_ONLY, b"mode=555,size=4k")
    elif os.path.exists(path):
        _mount(b"/dev/null", path, None, _SAME)


def _bind_temporary(folder: str, name: str) -> bool:
    """Mount a folder's subfolder as /tmp and return whether that worked. An earlier gang may have written there, so no
    link is followed: it would have us open whatever it names."""
    at = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in name.split("/"):
            inner = os.open(part, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
            os.close(at)
            at = inner
        _mount(f"/proc/self/fd/{at}".encode(), FOR_A_TIME, None, _SAME)
    except OSError:
        return False
    finally:
        os.close(at)
    return True


def _see_alone(folders: Sequence[str], readable: Sequence[str], opened: Sequence[str]) -> bool:
    """Change to a root of the file system in which only these paths exist, at the places that they have now. Return
    whether each process sees its own processes alone in it."""
    call = ctypes.CDLL(None, use_errno=True).syscall
    _mount(b"tmpfs", SHARED_MEMORY, b"tmpfs", _NO_SETUID | _NO_DEVICES, b"mode=755,size=16m")
    before = f"{SHARED_MEMORY}{_BEFORE}"
    os.mkdir(before)
    if call(_PIVOT_ROOT[os.uname().machine], SHARED_MEMORY.encode(), before.encode()):
        raise OSError(ctypes.get_errno(), "no other root")
    os.chdir("/")
    for name in ("fd", "stdin", "stdout", "stderr"):
        os.makedirs(DEVICES_FOLDER, exist_ok=True)
        if os.path.islink(f"{_BEFORE}{DEVICES_FOLDER}/{name}"):
            os.symlink(os.readlink(f"{_BEFORE}{DEVICES_FOLDER}/{name}"), f"{DEVICES_FOLDER}/{name}")
    places = {place: False for path in (PROCESSES, "/dev/null", *readable) if (place := _place_of(path))}
    places |= {place: True for path in (*folders, *opened) if (place := _place_of(path))}
    sees_own = False
    for place in sorted(places, key=lambda place: place.count("/")):
        old = _BEFORE + place
        if not places[place] and os.path.exists(place) and os.path.samefile(place, old):
            continue  # it is in a folder that is mounted already
        os.makedirs(os.path.dirname(place), exist_ok=True)
        if os.path.isdir(old):
            os.makedirs(place, exist_ok=True)
        elif not os.path.exists(place):
            os.close(os.open(place, os.O_CREAT | os.O_WRONLY, 0o600))
        if place == PROCESSES and _mount_own_processes():
            sees_own = True
        else:
            _mount(old.encode(), place, None, _SAME)
    for place in (SHARED_MEMORY, FOR_A_TIME):  # mount points for later, when no folder can be made any more
        os.makedirs(place, exist_ok=True)
    if ctypes.CDLL(None, use_errno=True).umount2(_BEFORE.encode(), _LATER):
        raise OSError(ctypes.get_errno(), "what was there before stays")
    os.rmdir(_BEFORE)
    read_only, writable = (_NO_SETUID | _READ_ONLY, 0), (_NO_SETUID, _READ_ONLY)  # flags that a mount gets, and loses
    for place, flags in [("/", read_only), *((place, writable) for place, is_theirs in places.items() if is_theirs)]:
        words = struct.pack("<QQQQ", *flags, 0, 0)
        below = 0 if place == PROCESSES else _WITH_ALL_BELOW  # what the machine has closed in /proc stays closed
        if call(_MOUNT_SETATTR, -100, place.encode(), below, words, len(words)):
            raise OSError(ctypes.get_errno(), f"{place} cannot be closed or opened")
    return sees_own


def _mount_own_processes() -> bool:
    """Mount a /proc in which a process sees only those that it may look into, and return whether that worked. It works
    for root alone, as a space of names of users has no processes of its own, and not in some containers."""
    try:
        _mount(b"proc", PROCESSES, b"proc", _NO_SETUID | _NO_DEVICES | _NO_PROGRAMS, _OWN_PROCESSES)
    except OSError:
        return False
    return True


def _place_of(path: str) -> str:
    """Return where a path of the old root leads, or "" where it leads nowhere. Links on the way are made in the new
    root, too."""
    parts, at = path.split("/"), list[str]()
    for _ in range(_MOST_PARTS):
        if not parts:
            return "/" + "/".join(at)
        part = parts.pop(0)
        if part in ("", ".", ".."):
            del at[len(at) - (part == "..") :]
            continue
        here = "/" + "/".join((*at, part))
        try:
            target = os.readlink(_BEFORE + here) if os.path.islink(_BEFORE + here) else ""
        except OSError:
            return ""
        if not os.path.lexists(_BEFORE + here):
            return ""
        if not target:
            at.append(part)
            continue
        if not os.path.lexists(here):
            os.makedirs(os.path.dirname(here), exist_ok=True)
            os.symlink(target, here)
        at = [] if target.startswith("/") else at
        parts = target.split("/") + parts
    return ""


def _mount(what: bytes, place: str, kind: bytes | None, flags: int, words: bytes | None = None) -> None:
    if ctypes.CDLL(None, use_errno=True).mount(what, place.encode(), kind, flags, words):
        raise OSError(ctypes.get_errno(), f"{place} cannot be mounted")


def stay_within(
    folders: Sequence[str], readable: Sequence[str], ports: Sequence[int] | None, opened: Sequence[str] = ()
) -> bool:
    """Let this process and its descendants write only below `folders` and to the files `opened`; read only there and
    what is `readable`, unless that is empty; and listen only at `ports`, unless that is None. The first folder must
    exist. Return False where this kernel cannot do it.

    Ports are restricted since Linux 6.7. On kernels that can do that too, signals reach only descendants of this
    process.
    """
    version = landlock_version()
    if not version:
        return False
    system = ctypes.CDLL(None, use_errno=True).syscall
    reads = (_EXECUTE | _READ_FILE | _READ_DIR) if readable else 0
    handled = _WRITES | reads | (_REFER if version >= 2 else 0) | (_TRUNCATE if version >= 3 else 0)
    attributes = struct.pack("<Q", handled)
    if version >= PORTS_SINCE:
        attributes += struct.pack("<Q", 0 if ports is None else _BIND_TCP)
    if version >= 6:
        attributes += struct.pack("<Q", _SCOPES)
    rules = system(_CREATE_RULESET, ctypes.create_string_buffer(attributes, len(attributes)), len(attributes), 0)
    if rules < 0:
        return False

    def allow(kind: int, rule: bytes, what: object) -> None:
        if system(_ADD_RULE, rules, kind, ctypes.create_string_buffer(rule, len(rule)), 0):
            raise OSError(ctypes.get_errno(), f"no rule for {what}")

    files = (_EXECUTE | _READ_FILE | _WRITE_FILE | _TRUNCATE) & handled  # the rights that a file can have
    within = [(path, handled) for path in folders] + [("/dev/null", files)]
    within += [(path, files | reads) for path in opened] + [(path, reads) for path in readable]
    for path, rights in within:
        try:
            at = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            if path == folders[0]:
                raise
            continue  # we cannot read what we cannot open
        is_folder = os.path.isdir(path)
        allow(_BENEATH, struct.pack("<Qi", rights if is_folder else rights & files, at), path)
        os.close(at)
    for port in (ports or ()) if version >= PORTS_SINCE else ():
        allow(_AT_PORT, struct.pack("<QQ", _BIND_TCP, port), port)
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    if system(_RESTRICT_SELF, rules, 0):
        raise OSError(ctypes.get_errno(), "the rules do not hold")
    os.close(rules)
    return True


# Signals.


def can_never_kill() -> bool:
    """Return whether `never_kill` works on this machine."""
    return os.uname().machine in _CALLS and os.path.exists("/proc/sys/kernel/seccomp/actions_avail")


def never_kill() -> bool:
    """Forbid this process and its descendants to send SIGKILL, also to themselves, and to change limits and scheduling
    of other processes. Return False where this machine cannot do it.

    So a process of a gang that ends by SIGKILL was killed from outside the gang, and the fault need not be guessed. And
    a process of the same account can neither end it by a limit of its processor time nor make it slow.
    """
    if not can_never_kill():
        return False
    machine, senders, changers, of_account = _CALLS[os.uname().machine]
    refused = [
        *((call, place, _SIGKILL, True) for call, place in senders),
        *((call, place, 0, False) for call, place in changers),
        *((call, 0, word, True) for call, word in of_account),
    ]
    code = b"".join(_steps(machine, refused))
    buffer = ctypes.create_string_buffer(code, len(code))
    program = struct.pack("<HxxxxxxQ", len(code) // 8, ctypes.addressof(buffer))
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    system = ctypes.CDLL(None, use_errno=True)
    if system.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.create_string_buffer(program, len(program)), 0, 0):
        raise OSError(ctypes.get_errno(), "the filter does not hold")
    return True


def _steps(machine: int, refused: Iterable[tuple[int, int, int, bool]]) -> Iterable[bytes]:
    """Yield the steps of the filter, eight bytes each. The data that it reads have the number of the call at 0, the
    machine at 4, and the arguments from 16 on. `refused` has a call, the index of an argument, a value, and whether
    the argument is refused with this value (True) or with any other (False)."""

    def step(what: int, value: int, jump: int = 0, other: int = 0) -> bytes:
        return struct.pack("<HBBI", what, jump, other, value)

    yield step(_LOAD, 4)
    yield step(_EQUAL, machine, 1, 0)
    yield step(_RETURN, _KILL)  # a call of another kind of machine, which this one understands too
    yield step(_LOAD, 0)
    yield step(_AT_LEAST, _OTHER_NUMBERS, 0, 1)
    yield step(_RETURN, _KILL)
    for number, place, value, is_refused in refused:
        yield step(_EQUAL, number, 0, 4)
        yield step(_LOAD, 16 + 8 * place)
        yield step(_EQUAL, value, *((0, 1) if is_refused else (1, 0)))
        yield step(_RETURN, _REFUSE)
        yield step(_LOAD, 0)
    yield step(_RETURN, _ALLOW)

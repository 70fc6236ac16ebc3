"""One room of a keeper: a tree of `/work`, and the namespaces in which what runs there sees nothing else.

A room has a user, PID, mount, network and IPC namespace of its own. Their first process does nothing but hold
them: its death is the death of all in the room. The keeper stands outside of all five, so nothing in the
room can name it. What runs there is forked by the keeper into the PID namespace, joins the others, becomes the
room's user, drops every right, takes the system-call filter, and only then becomes the program.

The writable folders are one tmpfs of the room's `disk_mb` and `num_files`, snapshots included. It is mounted
where only the keeper sees it.
"""

import fcntl
import math
import os
import resource
import signal
import socket
import struct
import termios
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NoReturn

from burnish.sandbox.inside import kernel, layers, mounts, rlimits, seccomp

ROOM_UID: Final = 1000
NEW_ROOM: Final = (
    kernel.CLONE_NEWUSER | kernel.CLONE_NEWPID | kernel.CLONE_NEWNS | kernel.CLONE_NEWNET | kernel.CLONE_NEWIPC
)
JOINED: Final = {"user": kernel.CLONE_NEWUSER, "mnt": kernel.CLONE_NEWNS, "net": kernel.CLONE_NEWNET, "ipc": 0x800_0000}
OWN_FILES: Final = 16  # inodes of the store itself: roots of layers, work folders, mount points
NICENESS: Final = 10
KILL_FIRST: Final = "500"  # of the kernel's memory killer: rather than the keeper; the room's own /proc is read-only
MAX_DESCRIPTORS: Final = 1024
MAX_TERMINALS: Final = 64
NEW_ROOT: Final = "/mnt"
DRY: Final = ("/empty/a", "/empty/b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a room may use, as the outside asks for it."""

    cpu_s: float
    memory_mb: int
    disk_mb: int
    num_files: int
    num_processes: int


@dataclass(slots=True, kw_only=True)
class Room:
    """A room's state; `top` numbers the folders that take the changes since the last snapshot."""

    name: str
    limits: Limits
    in_user_mode: bool
    chain: list[str]
    top: int = 0
    holder: int = 0
    holder_fd: int = -1
    fds: dict[str, int] = field(default_factory=dict[str, int])
    is_open: bool = False
    is_watched: bool = False

    @property
    def store(self) -> str:
        """The tmpfs with all that the room wrote."""
        return f"/store/{self.name}"

    @property
    def upper(self) -> str:
        """What takes the changes now."""
        return f"{self.store}/u{self.top}"

    @property
    def live(self) -> str:
        """Where the keeper sees the room's `/work`."""
        return f"{self.store}/live{self.top}"

    def pids(self) -> list[int]:
        """Whatever lives in the room, by its own numbers, but for the holder."""
        return [int(name) for name in os.listdir(self.fds["proc"]) if name.isdigit() and name != "1"]


def make_store(room: Room) -> None:
    """Mount the room's own disk."""
    os.mkdir(room.store, 0o700)
    flags = kernel.MS_NOSUID | kernel.MS_NODEV
    size = f"size={room.limits.disk_mb}m,nr_inodes={room.limits.num_files + OWN_FILES},mode=0700"
    kernel.mount("tmpfs", room.store, "tmpfs", flags, size)
    try:
        os.setxattr(room.store, "user.burnish", b"y")
    except OSError as error:  # the marks of overlayfs are such attributes
        raise OSError("tmpfs has no user attributes here; places need Linux 6.6 or later") from error


def lay(room: Room, chain: list[str], mode: int) -> None:
    """Put a new empty layer on top of a chain, mount it all, and make both the room's; or leave all as it was."""
    top = room.top + 1
    made = [f"{room.store}/{kind}{top}" for kind in ("u", "w", "live")]
    upper, work, live = made
    try:
        for folder in made:
            os.mkdir(folder, 0o700)
        os.chmod(upper, mode)
        os.chown(upper, ROOM_UID, ROOM_UID)
        layers.mount_writable(chain, upper, work, live)
    except OSError:
        for folder in made:
            layers.remove(folder, room.store)
        raise
    room.top, room.chain = top, chain


def open_room(room: Room, seccomp_filter: seccomp.Program) -> None:
    """Start the holder over a mounted tree, with `/tmp` and `/dev/shm` empty."""
    for name in ("tmp", "shm"):
        folder = f"{room.store}/{name}{room.top}"
        os.mkdir(folder, 0o700)
        os.chmod(folder, 0o1777)
        os.chown(folder, ROOM_UID, ROOM_UID)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        kernel.prctl(kernel.PR_SET_DUMPABLE, 1)  # inherited, for the maps to be ours to write; none in a room sees us
        forked = kernel.clone(NEW_ROOM, signal.SIGCHLD)
        if forked.pid == 0:
            _hold(room, theirs, seccomp_filter)
        room.holder, room.holder_fd = forked.pid, forked.pidfd
        room.is_open = True
        theirs.close()
        ids = [ROOM_UID] if room.in_user_mode else [0, ROOM_UID]
        for kind in ("uid_map", "gid_map"):
            mounts.write(f"/proc/{forked.pid}/{kind}", "".join(f"{number} {number} 1\n" for number in ids))
        ours.send(b"mapped")
        kernel.prctl(kernel.PR_SET_DUMPABLE, 0)
        names = ("proc", "pts", "pid", *JOINED)
        message, fds, _, _ = socket.recv_fds(ours, 256, len(names))
        if message != b"holding":
            raise OSError(f"the first process of a room failed: {message.decode(errors='replace') or 'no word'}")
        room.fds = dict(zip(names, fds, strict=True))


def _hold(room: Room, link: socket.socket, seccomp_filter: seccomp.Program) -> NoReturn:
    try:
        if link.recv(16) != b"mapped":
            raise OSError("the keeper wrote no maps")
        kernel.prctl(kernel.PR_SET_DUMPABLE, 0)
        fds = _furnish(room)
        _become_user(room, seccomp_filter)
        socket.send_fds(link, [b"holding"], fds)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps whoever was left behind
        kernel.close_from(0)
        while True:
            signal.pause()
    except OSError as error:
        link.send(str(error).encode()[:200])
    finally:
        os._exit(1)


def _furnish(room: Room) -> list[int]:
    """Build the root that the room sees; the descriptors that the keeper wants of it."""
    kernel.mount("none", "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
    kernel.mount("/base", NEW_ROOT, None, kernel.MS_BIND | kernel.MS_REC)
    for source, target in (
        (f"{room.store}/tmp{room.top}", "tmp"),
        (f"{room.store}/shm{room.top}", "dev/shm"),
        (room.live, "work"),
    ):
        kernel.mount(source, f"{NEW_ROOT}/{target}", None, kernel.MS_BIND)
    flags = kernel.MS_NOSUID | kernel.MS_NOEXEC
    terminals = f"newinstance,ptmxmode=0666,mode=0600,max={MAX_TERMINALS},uid={ROOM_UID},gid={ROOM_UID}"
    kernel.mount("devpts", f"{NEW_ROOT}/dev/pts", "devpts", flags, terminals)
    kernel.mount("proc", f"{NEW_ROOT}/proc", "proc", flags | kernel.MS_NODEV, "subset=pid")
    for_keeper = [os.open(f"{NEW_ROOT}/{name}", os.O_RDONLY | os.O_DIRECTORY) for name in ("proc", "dev/pts")]
    for_keeper += [os.open(f"/proc/self/ns/{name}", os.O_RDONLY) for name in ("pid", *JOINED)]
    seen = flags | kernel.MS_NODEV | kernel.MS_RDONLY
    kernel.mount("proc", f"{NEW_ROOT}/proc", "proc", seen, "subset=pid,hidepid=2")
    kernel.enter_root(NEW_ROOT)
    return for_keeper


def _become_user(room: Room, seccomp_filter: seccomp.Program) -> None:
    kernel.keep_capabilities(lambda capability: False)
    if not room.in_user_mode:
        os.setgroups([])
        os.setresgid(ROOM_UID, ROOM_UID, ROOM_UID)
        os.setresuid(ROOM_UID, ROOM_UID, ROOM_UID)
    kernel.drop_capabilities()
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    seccomp.install(seccomp_filter)


def swap_work(room: Room) -> None:
    """Show the room the tree that is now mounted as its `/work`; only the keeper's rights are used."""
    new = mounts.take(room.live, is_recursive=False)
    own = os.open("/proc/self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    try:
        mounts.enter(room.fds["mnt"], kernel.CLONE_NEWNS)
        try:
            kernel.unmount("/work")
            mounts.put(new, "/work")
        finally:
            mounts.enter(own, kernel.CLONE_NEWNS)
    finally:
        os.close(own)
        os.close(new)


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """A program to start in a room. `fds` become 0, 1, 2 and on; a terminal is 0 too, and controls it."""

    argv: Sequence[str]
    cwd: str
    env: dict[str, str]
    cpu_s: float
    fds: Sequence[int]
    terminal: int | None = None


def launch(room: Room, order: Launch, seccomp_filter: seccomp.Program) -> int:
    """Start a program in the room; its pid as the keeper sees it."""
    own = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
    try:
        mounts.enter(room.fds["pid"], kernel.CLONE_NEWPID)
        try:
            pid = os.fork()
            if pid == 0:
                _become_program(room, order, seccomp_filter)
        finally:
            mounts.enter(own, kernel.CLONE_NEWPID)
    finally:
        os.close(own)
    room.is_watched = True
    return pid


def _become_program(room: Room, order: Launch, seccomp_filter: seccomp.Program) -> NoReturn:
    code = 126
    try:
        os.setsid()
        os.nice(NICENESS)  # what samples and trains goes first
        _offer_to_memory_killer()
        for name, kind in JOINED.items():
            mounts.enter(room.fds[name], kind)
        _limit(room, order)
        _arrange(order)
        _become_user(room, seccomp_filter)
        for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        os.umask(0o022)
        os.chdir(order.cwd)
        code = 127
        os.execvpe(order.argv[0], list(order.argv), order.env)
    except (OSError, ValueError) as error:
        os.write(2, f"{order.argv[0] if code == 127 else order.cwd}: {error}\n".encode(errors="replace"))
    finally:
        os._exit(code)


def _offer_to_memory_killer() -> None:
    kernel.prctl(kernel.PR_SET_DUMPABLE, 1)  # or the file is another user's; nobody in the room may trace us as yet
    mounts.write("/proc/self/oom_score_adj", KILL_FIRST)
    kernel.prctl(kernel.PR_SET_DUMPABLE, 0)


def _limit(room: Room, order: Launch) -> None:
    limits = room.limits
    cpu_s = max(1, math.ceil(order.cpu_s))
    for name, soft, hard in (
        (resource.RLIMIT_FSIZE, limits.disk_mb << 20, limits.disk_mb << 20),
        (resource.RLIMIT_NOFILE, MAX_DESCRIPTORS, MAX_DESCRIPTORS),
        (resource.RLIMIT_NPROC, limits.num_processes + 1, limits.num_processes + 1),
        (resource.RLIMIT_DATA, limits.memory_mb << 20, limits.memory_mb << 20),
        (resource.RLIMIT_MEMLOCK, 0, 0),
        (resource.RLIMIT_MSGQUEUE, 0, 0),
        (resource.RLIMIT_SIGPENDING, 256, 256),
        (resource.RLIMIT_CPU, cpu_s, cpu_s + 1),
    ):
        rlimits.lower(name, soft, hard)


def _arrange(order: Launch) -> None:
    if order.terminal is not None:
        fcntl.ioctl(order.terminal, termios.TIOCSCTTY, 0)
    high = [fcntl.fcntl(fd, fcntl.F_DUPFD, 64) for fd in order.fds]
    for target, fd in enumerate(high):
        os.dup2(fd, target)
    kernel.close_from(len(high))


def prepare_terminal(fd: int, rows: int, columns: int) -> None:
    """No echo, no translation of line ends, no flow control; signals from keys stay on."""
    attributes = termios.tcgetattr(fd)
    attributes[0] &= ~(termios.IXON | termios.IXOFF)
    attributes[1] &= ~termios.ONLCR
    attributes[3] &= ~termios.ECHO
    termios.tcsetattr(fd, termios.TCSANOW, attributes)
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

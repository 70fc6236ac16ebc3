"""What hostile code tries. Each snippet raises where it is held, and prints ESCAPED where it is not.

No snippet writes a kernel setting: `/proc/sys` is opened for writing at most.
"""

import platform

import pytest

from burnish.sandbox.inside.seccomp import BLOCKED

PRELUDE = """
import ctypes, errno, os, signal, socket, subprocess, sys, time
libc = ctypes.CDLL(None, use_errno=True)
def checked(result):
    if result == -1:
        raise OSError(ctypes.get_errno(), "refused")
    return result
try:
"""
EPILOGUE = """
except (OSError, ValueError, OverflowError, subprocess.SubprocessError) as error:
    print("held")
else:
    print("ESCAPED")
"""

ATTACKS = {
    "read the password hashes": "open('/etc/shadow').read()",
    "list root's home": "os.listdir('/root')",
    "list homes": "os.listdir('/home')",
    "read a key of the user": "open(os.path.expanduser('~root/.ssh/id_rsa')).read()",
    "find the project through the search path": "import importlib; importlib.import_module('burnish')"
    "\nexcept ImportError:\n    print('held')\n    sys.exit()\ntry:\n    pass",
    "see the host's first process": "open('/proc/1/environ').read()",
    "read the memory of pid 1": "open('/proc/1/mem', 'rb').read(1)",
    "go through the root of pid 1": "os.listdir('/proc/1/root/')",
    "open a descriptor of pid 1": "open('/proc/1/fd/3', 'rb')",
    "change the core pattern": "os.open('/proc/sys/kernel/core_pattern', os.O_WRONLY)",
    "change the module loader": "os.open('/proc/sys/kernel/modprobe', os.O_WRONLY)",
    "trigger sysrq": "os.open('/proc/sysrq-trigger', os.O_WRONLY)",
    "read kernel memory": "open('/proc/kcore', 'rb').read(1)",
    "enter /sys": "os.listdir('/sys/fs/cgroup')",
    "write into the standard library": "open(os.__file__, 'a')",
    "write into the site packages": "open('/site/0/evil.pth', 'w')",
    "write into the root": "open('/evil', 'w')",
    "write into the devices": "open('/dev/evil', 'w')",
    "write the fork server's source": "open('/zygote/burnish/sandbox/inside/cell.py', 'w')",
    "make the root writable": "checked(libc.mount(b'none', b'/', None, 32, None))",
    "mount a tmpfs": "checked(libc.mount(b'none', b'/tmp', b'tmpfs', 0, None))",
    "unmount its disk": "checked(libc.umount2(b'/work', 2))",
    "chroot": "os.chroot('/tmp')",
    "make a device": "os.mknod('/tmp/mem', 0o666 | 0o020000, os.makedev(1, 1))",
    "become root": "os.setuid(0)",
    "become another job": "os.setresuid(1879048192, 1879048192, 1879048192)",
    "take a group": "os.setgroups([0])",
    "a setuid file of its own": "open('/tmp/s', 'w').close(); os.chown('/tmp/s', 0, 0)",
    "a TCP socket": "socket.create_connection(('127.0.0.1', 80), timeout=1)",
    "a UDP socket": "socket.socket(socket.AF_INET, socket.SOCK_DGRAM)",
    "an IPv6 socket": "socket.socket(socket.AF_INET6)",
    "a vsock socket": "socket.socket(40, socket.SOCK_STREAM)",
    "a packet socket": "socket.socket(socket.AF_PACKET, socket.SOCK_RAW)",
    "a netlink socket": "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)",
    "a kernel crypto socket": "socket.socket(socket.AF_ALG, socket.SOCK_SEQPACKET)",
    "an XDP socket": "socket.socket(44, socket.SOCK_RAW)",
    "the container engine's socket": "socket.socket(socket.AF_UNIX).connect('/var/run/docker.sock')",
    "resolve a name": "socket.getaddrinfo('example.com', 80)",
    "trace its parent": "checked(libc.ptrace(16, os.getppid(), 0, 0))",
    "trace itself": "checked(libc.ptrace(0, 0, 0, 0))",
    "new users": "checked(libc.unshare(0x10000000))",
    "new users through clone": "checked(libc.syscall(56 if os.uname().machine == 'x86_64' else 220,"
    " 0x10000000 | 17, 0, 0, 0, 0))",
    "enter another namespace": "checked(libc.setns(os.open('/proc/self/ns/net', os.O_RDONLY), 0))",
    "a process out of limits": "import resource; resource.prlimit(1, resource.RLIMIT_NOFILE, (0, 0))",
    "raise its own limit": "import resource; resource.setrlimit(resource.RLIMIT_NPROC, (4096, 4096))",
    "be more important": "os.nice(-5)",
    "real-time priority": "os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))",
    "set the clock": "time.clock_settime(time.CLOCK_REALTIME, 0)",
    "rename the host": "socket.sethostname('evil')",
    "memory behind a descriptor": "os.memfd_create('m')",
    "a shell": "os.execv('/bin/sh', ['sh', '-c', 'echo ESCAPED'])",
    "signal a process of the host": "os.kill(99999, 0)",
    "lock memory": "checked(libc.mlock(ctypes.create_string_buffer(1 << 20), 1 << 20))",
    "type into a terminal": "import fcntl; fcntl.ioctl(0, 0x5412, b'x')",
    "the controlling terminal": "os.open('/dev/tty', os.O_RDWR)",
    "a link to a secret": "os.symlink('/etc/shadow', '/tmp/l'); open('/tmp/l').read()",
    "a hard link to the library": "os.link(os.__file__, '/tmp/os.py')",
    "climb out of its folder": "open('../../../../etc/hostname').read()",
}


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_an_attack_is_held(run, attack):
    outcome = run(PRELUDE + "    " + attack + EPILOGUE)
    assert (outcome.stdout, outcome.ending) == (b"held\n", "exited"), outcome


def test_every_blocked_system_call_answers_permission_denied(run):
    machine = platform.machine()
    numbers = {name: call.x86_64 if machine == "x86_64" else call.aarch64 for name, call in BLOCKED.items()}
    source = f"""
import ctypes, errno
libc = ctypes.CDLL(None, use_errno=True)
for name, number in {numbers!r}.items():
    if number is not None and (libc.syscall(number, 0, 0, 0, 0, 0, 0) != -1 or ctypes.get_errno() != errno.EPERM):
        print(name)
"""
    outcome = run(source)
    assert (outcome.stdout, outcome.ending) == (b"", "exited"), outcome


@pytest.mark.parametrize("number", [435, 470, 0x4000_0000 + 39])
def test_unknown_calls_and_the_other_abi_answer_not_implemented(run, number):
    source = f"""
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
print(libc.syscall(ctypes.c_long({number}), 0, 0, 0), ctypes.get_errno())
"""
    assert run(source).stdout == b"-1 38\n"


def test_the_job_holds_no_capability_and_can_gain_none(run):
    source = """
for line in open("/proc/self/status"):
    if line.startswith(("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp:")):
        print(int(line.split()[1], 16))
"""
    assert run(source).stdout.split() == [b"0"] * 5 + [b"1", b"2"]


def test_nothing_of_the_hosts_environment_or_processes_is_seen(run, monkeypatch):
    monkeypatch.setenv("BURNISH_TEST_SECRET", "swordfish")
    outcome = run(
        "import os; print(dict(os.environ)); print(sorted(int(p) for p in os.listdir('/proc') if p.isdigit()))"
    )
    assert b"swordfish" not in outcome.stdout and b"HOSTNAME" not in outcome.stdout
    assert outcome.stdout.splitlines()[1] == b"[1, 2]"


def test_the_job_holds_no_descriptor_but_its_streams_and_answer(run):
    source = "import os\nfor fd in range(64):\n    try: os.fstat(fd); print(fd)\n    except OSError: pass"
    assert run(source).stdout.split() == [b"0", b"1", b"2", b"3"]


def test_every_mount_is_read_only_or_small_and_none_heeds_setuid(run):
    mounts = [line.split() for line in run("print(open('/proc/self/mountinfo').read())").stdout.decode().splitlines()]
    flags = {mount[4]: mount[5].split(",") for mount in mounts if mount}
    writable = {place for place, words in flags.items() if "rw" in words}
    assert writable == {"/scratch", "/work", "/tmp", "/dev/shm"}
    assert all("nosuid" in words for words in flags.values())

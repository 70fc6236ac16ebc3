"""Tries: open each device that would lead to the machine.

Must: find none of them.
"""

import os

NAMES = "mem kmem port kmsg kvm fuse net/tun vsock vhost-vsock uinput input/event0 sda vda nvme0n1 loop-control "
NAMES += "loop0 mapper/control autofs cuse hpet rtc0 snapshot userfaultfd nvidia0 nvidiactl dri/card0 ptmx tty0 console"
found = [name for name in NAMES.split() if os.path.exists(f"/dev/{name}")]
if not found:
    raise FileNotFoundError

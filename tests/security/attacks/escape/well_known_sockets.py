"""Tries: connect to the sockets on which a host listens by habit.

Must: reach none of them.
"""

import socket

NAMES = (
    "/run/dbus/system_bus_socket", "/run/systemd/private", "/run/systemd/notify", "/run/systemd/journal/socket",
    "/dev/log", "/run/docker.sock", "/run/containerd/containerd.sock", "/run/podman/podman.sock", "/run/snapd.socket",
    "/tmp/.X11-unix/X0", "\0/tmp/.X11-unix/X0", "/run/user/0/bus", "/run/nscd/socket", "\0/containerd-shim",
)  # fmt: skip
reached = []
for name in NAMES:
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET):
        try:
            socket.socket(socket.AF_UNIX, kind).connect(name)
            reached.append(name)
        except OSError:
            continue
if not reached:
    raise ConnectionRefusedError

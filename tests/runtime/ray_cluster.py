"""A Ray cluster of this host for tests, with little beside it and with patience, since other tests may run too.

Import this before ray: who may enter the cluster is read when ray is imported.
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

os.environ.setdefault("RAY_AUTH_MODE", "token")
os.environ.setdefault("RAY_AUTH_TOKEN", uuid.uuid4().hex * 2)
PATIENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_agent_register_timeout_ms": "300000",
    "RAY_worker_register_timeout_seconds": "300",
    "RAY_prestart_worker_first_driver": "0",
    "RAY_enable_worker_prestart": "0",
}


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on; known beforehand, Ray waits for none of its agents."""
    listening = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in listening]
    for each in listening:
        each.close()
    return ports


def answers(host: str, port: int) -> bool:
    """Whether somebody listens."""
    with socket.socket() as asking:
        asking.settimeout(1)
        return asking.connect_ex((host, port)) == 0


@contextmanager
def ray_cluster(num_cpus: int) -> Iterator[str]:
    """The address of a cluster, which ends with the block: no process and no file of it is left."""
    from ray.util import get_node_ip_address  # an extra, and slow to import

    host = get_node_ip_address()  # Ray turns 127.0.0.1 into this
    folder = tempfile.mkdtemp(prefix="bray-")
    port, *agents = free_ports(5)
    names = (
        "dashboard-agent-listen-port",
        "dashboard-agent-grpc-port",
        "runtime-env-agent-port",
        "metrics-export-port",
    )
    head = subprocess.Popen(
        [
            sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block", "--no-monitor",
            "--disable-usage-stats", "--include-dashboard=false", "--include-log-monitor=false",
            f"--port={port}", f"--num-cpus={num_cpus}", f"--temp-dir={folder}", f"--object-store-memory={100 << 20}",
            *(f"--{name}={agent}" for name, agent in zip(names, agents, strict=True)),
        ],
        env={**os.environ, **PATIENT}, start_new_session=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        while not answers(host, port):
            assert head.poll() is None, "the cluster did not start"
            time.sleep(0.2)
        yield f"{host}:{port}"
    finally:
        head.send_signal(signal.SIGTERM)
        head.wait(60)
        for _ in range(100):
            shutil.rmtree(folder, ignore_errors=True)
            if not Path(folder).exists():
                break
            time.sleep(0.1)

"""A recipe that names no Ray cluster has one of this host, which ends with the run and leaves nothing."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.runtime.ray_cluster import PATIENT

CODE = """
from functools import partial
from burnish.runtime.ray import Cluster
from burnish.runtime.workers import Pool
from tests.runtime import jobs
cluster = Cluster(num_cpus=2, object_store_mb=100)
with Pool(cluster.crew("desk", lambda number: jobs.desk, 2), 2) as pool:
    print([pool.submit(partial(jobs.Desk.square, number=number)).result() for number in range(4)])
cluster.close()
"""


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_cluster_without_an_address_is_one_of_this_host(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="pip install 'burnish[ray]'")
    folder = Path("/tmp")  # Ray's sockets need a short path
    before = set(folder.glob("burnish-ray-*"))
    command = [sys.executable, "-c", CODE]
    try:
        ran = subprocess.run(command, env={**os.environ, **PATIENT}, capture_output=True, text=True, timeout=300)
    except subprocess.TimeoutExpired:
        pytest.skip("this host is too busy: Ray has not started within 300 s")
    if "no Ray cluster at 'this host'" in ran.stderr:  # Ray gives itself 30 s, whatever one says
        pytest.skip(f"this host is too busy for Ray: {ran.stderr.splitlines()[-1]}")
    assert "[0, 1, 4, 9]" in ran.stdout, ran.stderr
    assert set(folder.glob("burnish-ray-*")) == before

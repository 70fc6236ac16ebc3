"""`swerex` with SWE-ReX's own local deployment, which isolates nothing: the adapter, and what it refuses."""

import asyncio

import pytest

from burnish.core.errors import ConfigError, SandboxError
from burnish.sandbox import Job, ResourceLimits, backends
from burnish.sandbox.place import Command, PlaceSpec

pytest.importorskip("swerex.runtime.remote")

LOCAL = {"deployment": "local"}


def with_local(work):
    async def run():
        async with backends.open_backend("swerex", LOCAL) as backend:
            return await work(backend)

    return asyncio.run(run())


def test_a_job_runs_with_input_files_and_answer():
    source = "import os; os.write(int(os.environ['BURNISH_ANSWER_FD']), open('a').read().encode()); print(input())"
    job = Job(source=source, files={"a": b"1"}, stdin=b"2\n", limits=ResourceLimits(wall_s=60.0))
    outcome = with_local(lambda backend: backend.run(job))
    assert (outcome.ending, outcome.answer, outcome.stdout) == ("exited", b"1", b"2\n"), outcome


def test_a_place_keeps_bytes_and_goes_back_to_its_snapshot():
    async def work(backend):
        place = await backend.start(PlaceSpec(needs=frozenset()))
        await place.write("a/b", b"\xff\x00")
        name = await place.snapshot()
        outcome = await place.run(Command(argv=("/bin/sh", "-c", "rm a/b; sleep 600"), wall_s=1.0))
        await place.restore(name)
        content = await place.read("a/b", 10)
        await place.stop()
        return outcome.ending, content

    assert with_local(work) == ("timed_out", b"\xff\x00")


def test_a_deployment_is_believed_no_further_than_it_goes():
    with pytest.raises(SandboxError, match="'swerex' cannot give files, network"):
        with_local(lambda backend: backend.start(PlaceSpec()))


def test_settings_that_the_deployment_does_not_know_are_refused():
    with pytest.raises(ConfigError, match="no_such_setting"):
        backends.load("swerex").open_backend({"deployment": "docker", "settings": {"no_such_setting": 1}}, 1)


def test_nothing_is_vouched_for_on_this_very_host():
    with pytest.raises(ConfigError, match="'local' isolates nothing"):
        backends.load("swerex").open_backend({**LOCAL, "vouched_for": ["network"]}, 1)

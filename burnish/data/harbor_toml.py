"""Harbor's `task.toml`, schema 1.4, field by field, and terminal-bench's `task.yaml`: an unknown field is an error.

Where the format allows anything, it is anything here: `[metadata]`, and the values of `env`.
"""

from typing import Any

from pydantic import ConfigDict, Field, JsonValue

from burnish.core.config import Strict


class Loose(Strict):
    """Numbers as people write them: `timeout_sec = 120` is 120.0."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=False, allow_inf_nan=False)


class Author(Loose):
    """Who wrote a task."""

    name: str
    email: str | None = None


class About(Loose):
    """`[task]`."""

    name: str = ""
    version: str | None = None
    description: str | None = None
    authors: list[Author] = []
    keywords: list[str] = []


class Agent(Loose):
    """`[agent]`."""

    timeout_sec: float | None = None
    user: str | int | None = None
    network_mode: str | None = None
    allowed_hosts: list[str] = []


class Healthcheck(Loose):
    """When an environment is ready."""

    command: str
    interval_sec: float | None = None
    timeout_sec: float | None = None
    start_period_sec: float | None = None
    start_interval_sec: float | None = None
    retries: int | None = None


class McpServer(Loose):
    """A server of tools in an environment."""

    name: str
    transport: str | None = None
    url: str | None = None
    command: str | None = None
    args: list[str] = []
    headers: dict[str, str] = {}


class Environment(Loose):
    """`[environment]`, and `[verifier.environment]`."""

    build_timeout_sec: float = 600.0
    docker_image: str | None = None
    os: str = "linux"
    cpus: float | None = None
    memory_mb: int | None = None
    storage_mb: int | None = None
    gpus: int | None = None
    gpu_types: list[str] | None = None
    tpu: dict[str, JsonValue] | None = None
    mcp_servers: list[McpServer] = []
    env: dict[str, str] = {}
    skills_dir: str | None = None
    healthcheck: Healthcheck | None = None
    workdir: str | None = None
    network_mode: str | None = None
    allowed_hosts: list[str] = []
    memory: str | None = None
    storage: str | None = None
    allow_internet: bool | None = None


class Collect(Loose):
    """What a verifier gathers."""

    command: str
    service: str = "main"
    timeout_sec: float = 60.0
    user: str | int | None = None


class Verifier(Loose):
    """`[verifier]`."""

    timeout_sec: float = 600.0
    env: dict[str, str] = {}
    user: str | int | None = None
    environment_mode: str = "shared"
    environment: Environment | None = None
    collect: list[Collect] = []
    network_mode: str | None = None
    allowed_hosts: list[str] = []


class Solution(Loose):
    """`[solution]`."""

    env: dict[str, str] = {}


class Step(Loose):
    """`[[steps]]`."""

    name: str
    agent: Agent | None = None
    verifier: Verifier | None = None
    min_reward: float | dict[str, float] | None = None
    healthcheck: Healthcheck | None = None
    artifacts: list[JsonValue] = []


class TaskToml(Loose):
    """The whole of `task.toml`."""

    schema_version: str | None = None
    version: str | None = None
    source: str | None = None
    multi_step_reward_strategy: str | None = None
    artifacts: list[JsonValue] = []
    task: About = About()
    metadata: dict[str, Any] = {}
    agent: Agent = Agent()
    verifier: Verifier = Verifier()
    environment: Environment = Environment()
    solution: Solution = Solution()
    steps: list[Step] = []


class TaskYaml(Loose):
    """The whole of terminal-bench's `task.yaml`."""

    instruction: str = Field(min_length=1)
    author_name: str | None = None
    author_email: str | None = None
    difficulty: str = "unknown"
    category: str | None = None
    tags: list[str] = []
    parser_name: str = "pytest"
    max_agent_timeout_sec: float = 360.0
    max_test_timeout_sec: float = 60.0
    run_tests_in_same_shell: bool = False
    disable_asciinema: bool = False
    estimated_duration_sec: float | None = None
    expert_time_estimate_min: float | None = None
    junior_time_estimate_min: float | None = None

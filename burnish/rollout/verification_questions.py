"""What a verdict depends on, asked of a domain: the question, and the forms of an answer that share a verdict."""

import json
from dataclasses import asdict, is_dataclass

from burnish.core.types import Task
from burnish.domains import Domain, SaysAnswer, SaysIdentity
from burnish.rewards.verdict_cache import Question
from burnish.rewards.verifier_version import environment_version, verifier_version
from burnish.sandbox import Box


def may_be_kept(domain: Domain) -> bool:
    """Whether a domain's verdicts are worth a look-up, and known well enough."""
    return _identity(domain) is not None


def domain_question(domain: Domain, box: Box, environment: str) -> Question | None:
    """What all verdicts of a domain depend on, the task still empty; None where none may be kept."""
    identity = _identity(domain)
    version = verifier_version(type(domain).__module__) if identity is not None else None
    if identity is None or version is None:
        return None
    where = f"{box.isolation} {environment} {environment_version()}"
    return Question(verifier=version, environment=where, domain=f"{domain.name} {identity}", task="")


def _identity(domain: Domain) -> str | None:
    if isinstance(domain, SaysIdentity):
        return domain.cache_identity()
    if not domain.executes_code or not is_dataclass(domain):
        return None
    try:
        return json.dumps(asdict(domain), sort_keys=True)
    except TypeError:  # a field that is no plain value, such as a function
        return None


def exact_form(reply: str) -> str:
    """The reply itself, as the form of an answer that every domain has."""
    return f"reply {reply}"


def normal_form(domain: Domain, task: Task, reply: str) -> str | None:
    """What the domain says that its verdict depends on; None where it says nothing."""
    if not isinstance(domain, SaysAnswer):
        return None
    try:
        key = domain.answer_key(task, reply)
    except Exception:  # noqa: BLE001  a fault of the domain's must not stop a run; its verifier will say more
        return None
    return None if key is None else f"answer {key}"

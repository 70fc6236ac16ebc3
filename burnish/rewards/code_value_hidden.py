"""Cases that no reply can know: perturbed inputs, with values from a trusted reference or from nobody.

Decisions: the reference runs in a box of its own, never beside a reply. Inputs on which it raises, hangs or gives no
value are dropped. A reference that fails the task's own cases is the task's fault: the verdict is `unscorable`.
Without a reference, or where several answers are right, each perturbed input is asked twice, in two orders: equal
answers earn nothing, different ones cost. Make the cases once a task and use them for all its replies; the seed must
not be known to the policy.
Covered: functions and classes. Not covered: relations that a task states (f(reversed x) = f(x)).
"""

from collections.abc import Sequence
from dataclasses import replace

from burnish.core.types import Verdict
from burnish.rewards.code_value import Case, CodeTask, brief, complaint, values_of, verify
from burnish.rewards.code_value_answers import Answer
from burnish.rewards.perturb import perturb
from burnish.sandbox import Box

DRAWS_FOR_ONE = 2


class BadReference(Exception):
    """The reference solution does not solve its own task."""


async def verify_hidden(
    task: CodeTask, source: str, box: Box, *, reference: str | None, seed: int, num_perturbed: int = 8
) -> Verdict:
    """Judge a reply on the task's cases and on perturbed ones."""
    try:
        harder = await with_perturbed(task, reference, box, seed=seed, num=num_perturbed)
    except BadReference as error:
        return Verdict.unscorable(str(error))
    return await verify(harder, source, box)


async def with_perturbed(task: CodeTask, reference: str | None, box: Box, *, seed: int, num: int) -> CodeTask:
    """The task with up to `num` perturbed cases; `BadReference` if the reference fails the task's own."""
    examples = [case.arguments for case in task.cases if not case.raises]
    inputs = perturb(examples, seed, DRAWS_FOR_ONE * num, is_class=task.is_class)
    if reference is None or task.comparison.rule == "one_of":  # whose other right answers it does not know
        new = [Case(arguments=arguments, is_known=False, origin="perturbed") for arguments in inputs[:num]]
        return replace(task, cases=(*task.cases, *new), num_rounds=max(2, task.num_rounds))
    asked = [Case(arguments=arguments, origin="perturbed") for arguments in inputs]
    answers = await values_of(replace(task, cases=(*task.cases, *asked)), reference, box)
    _check_reference(task, answers[: len(task.cases)])
    found = zip(asked, answers[len(task.cases) :], strict=True)
    new = [replace(case, expected=answer.value) for case, answer in found if answer and not answer.error]
    return replace(task, cases=(*task.cases, *new[:num]))


def _check_reference(task: CodeTask, answers: Sequence[Answer | None]) -> None:
    for case, answer in zip(task.cases, answers, strict=True):
        wrong = complaint(answer, case, task.comparison, "stopped") if case.is_known else ""
        if wrong:
            raise BadReference(
                f"the reference of {task.function!r} {wrong} on {brief(case.arguments)}; mend the reference or the case"
            )

"""The program that runs a generator's own scorer inside the sandbox.

It reads a JSON object from stdin (which entry of which generator; the reference; the answer), makes the entry
again and writes two lines of JSON to the answer descriptor: first `{"question", "reference"}` (the question's
hash, and the scorer's word on the reference; null without one), then `{"score"}`. The first line is out before the
answer is looked at, so an end without the second is the answer's doing. What the answer makes the scorer do
may take a second or two of processor time more than the reference did; nothing inside can lift that limit again.

Scores leave as text, so that NaN and infinities arrive as what they are.
"""

import hashlib
import json
import math
import os
import resource
import sys
import time

import reasoning_gym


def main() -> None:
    """Score the reference, then the answer."""
    work = json.load(sys.stdin)
    dataset = reasoning_gym.create_dataset(work["generator"], **work["config"], seed=work["seed"], size=work["size"])
    entry = dataset[work["item"]]
    reference = work["reference"]
    with os.fdopen(int(os.environ["BURNISH_ANSWER_FD"]), "w", encoding="utf-8") as answers:
        question = hashlib.sha256(entry["question"].encode("utf-8", "surrogatepass")).hexdigest()
        before_s = time.process_time()
        on_reference = None if reference is None else str(float(dataset.score_answer(reference, entry)))
        answers.write(json.dumps({"question": question, "reference": on_reference}) + "\n")
        answers.flush()
        _allow(2 * time.process_time() - before_s)
        answers.write(json.dumps({"score": str(float(dataset.score_answer(work["answer"], entry)))}) + "\n")


def _allow(until_s: float) -> None:
    """Let this process live until it has spent that much processor time, and up to two seconds more."""
    most_s = resource.getrlimit(resource.RLIMIT_CPU)[1]  # of the job, which cannot be raised
    whole_s = math.ceil(until_s) + 1
    if most_s != resource.RLIM_INFINITY:
        whole_s = min(whole_s, most_s)
    resource.setrlimit(resource.RLIMIT_CPU, (whole_s, whole_s))


if __name__ == "__main__":
    main()

"""The first host that failed (level 1), the one that failed most (2), or the cause of the first failure (3).

Held out of training.
"""

from collections import Counter
from random import Random

from burnish.domains.terminal.ended import chore
from burnish.domains.terminal.families.count_log import log_lines
from burnish.domains.terminal.oracle import shell
from burnish.domains.terminal.pools import FAULTS, FOLDERS, HOSTS, THINGS, clock, lines
from burnish.domains.terminal.spec import TerminalTask

LEVELS = (1, 2, 3)


def make(rng: Random, level: int) -> TerminalTask:
    """Draw a log, and what is asked of its failures."""
    answer, path = f"{rng.choice(THINGS)}.txt", f"{rng.choice(THINGS)}.log"
    hosts = rng.sample(HOSTS, 4)
    if level == 3:
        return _several(rng, hosts, answer)
    log = log_lines(rng, hosts, 12)
    while level == 2 and not _has_one_worst(log):
        log = log_lines(rng, hosts, 14)
    errors = [line.split()[2] for line in log if " ERROR " in line] or [rng.choice(hosts)]
    if not any(" ERROR " in line for line in log):
        log.append(f"23:59:59 ERROR {errors[0]} {FAULTS[0]}")
    if level == 1:
        told = f"Which host has the first ERROR line in {path}? Write its name to {answer}."
        return chore("find_host", 1, told, {path: lines(*log)}, {answer: lines(errors[0])},
                     [shell(f"grep ERROR {path} | head -n 1 | awk '{{print $3}}' > {answer}")])  # fmt: skip
    told = f"Which host has the most ERROR lines in {path}? Write its name to {answer}."
    most = "sort | uniq -c | sort -rn | head -n 1 | awk '{print $2}'"
    command = f"grep ERROR {path} | awk '{{print $3}}' | {most} > {answer}"
    worst = Counter(errors).most_common(1)[0][0]
    return chore("find_host", 2, told, {path: lines(*log)}, {answer: lines(worst)}, [shell(command)])


def _has_one_worst(log: list[str]) -> bool:
    counts = Counter(line.split()[2] for line in log if " ERROR " in line).most_common(2)
    return len(counts) == 2 and counts[0][1] > counts[1][1]


def _several(rng: Random, hosts: list[str], answer: str) -> TerminalTask:
    """One log a host; which failed first, and of what."""
    folder, times = rng.choice(FOLDERS), clock(rng, 12)
    texts: dict[str, list[str]] = {host: [] for host in hosts}
    failed: list[tuple[str, str, str]] = []
    for number, time in enumerate(times):
        host, fault = rng.choice(hosts), rng.choice(FAULTS)
        is_error = rng.random() < 0.4 or number == 11
        texts[host].append(f"{time} {'ERROR' if is_error else 'INFO'} {fault if is_error else 'health check ok'}")
        failed += [(time, host, fault)] if is_error else []
    files = {f"{folder}/{host}.log": lines(*found) for host, found in texts.items()}
    _, host, fault = failed[0]
    told = (
        f"The files in {folder} are one for each host. Which host had the first ERROR of all, and what did it say? "
        f"Write `HOST: MESSAGE` to {answer}."
    )
    calls = [
        shell(f"grep ERROR {folder}/*.log | sort -t: -k2 | head -n 3"),
        shell(f"echo '{host}: {fault}' > {answer}"),
    ]
    return chore("find_host", 3, told, files, {answer: lines(f"{host}: {fault}")}, calls)

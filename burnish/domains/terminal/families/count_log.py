"""How many errors one log has (level 0), one host has (1), or all logs of a folder have (2)."""

from random import Random

from burnish.domains.terminal.ended import chore
from burnish.domains.terminal.oracle import shell
from burnish.domains.terminal.pools import FAULTS, FINE, FOLDERS, HOSTS, THINGS, clock, lines
from burnish.domains.terminal.spec import TerminalTask

LEVELS = (0, 1, 2)


def make(rng: Random, level: int) -> TerminalTask:
    """Draw logs, and the question."""
    answer = f"{rng.choice(THINGS)}.txt"
    hosts = rng.sample(HOSTS, 3)
    folder = rng.choice(FOLDERS)
    paths = [f"{folder}/{host}.log" for host in hosts] if level == 2 else [f"{rng.choice(THINGS)}.log"]
    logs = {path: log_lines(rng, hosts, rng.randint(8, 16)) for path in paths}
    errors = [line for log in logs.values() for line in log if " ERROR " in line]
    if level == 0:
        told = rng.choice(
            (
                "How many ERROR lines does {0} have? Write the number to {1}.",
                "Count the ERROR lines of {0}; write the number to {1}.",
            )
        )
        command = f"grep -c ERROR {paths[0]} > {answer}"
        told, num = told.format(paths[0], answer), len(errors)
    elif level == 1:
        host = rng.choice(hosts)
        told = f"How many ERROR lines of {paths[0]} are from {host}? Write the number to {answer}."
        command = f"grep ERROR {paths[0]} | grep -c {host} > {answer}"
        num = sum(f" {host} " in line for line in errors)
    else:
        told = f"How many ERROR lines do all files in {folder} have together? Write the number to {answer}."
        command, num = f"cat {folder}/*.log | grep -c ERROR > {answer}", len(errors)
    files = {path: lines(*log) for path, log in logs.items()}
    return chore("count_log", level, told, files, {answer: lines(str(num))}, [shell(command)])


def log_lines(rng: Random, hosts: list[str], num: int) -> list[str]:
    """Draw lines of a log; some report an error, the word also stands where it is none."""
    drawn: list[str] = []
    for time in clock(rng, num):
        level = rng.choice(("INFO", "INFO", "WARNING", "ERROR"))
        text = rng.choice(FAULTS if level != "INFO" else FINE)
        drawn.append(f"{time} {level} {rng.choice(hosts)} {text}")
    return drawn

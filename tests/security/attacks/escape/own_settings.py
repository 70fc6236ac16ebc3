"""Tries: write settings of its own process that would give it more than its share.

Must: be refused each of them.
"""

WANTED = {
    "autogroup": "-10",
    "oom_score_adj": "-500",
    "loginuid": "0",
    "timens_offsets": "monotonic 9999 0",
    "uid_map": "0 0 4294967295",
    "projid_map": "0 0 1",
}
written = []
for name, value in WANTED.items():
    try:
        with open(f"/proc/self/{name}", "w") as file:
            file.write(value)
        written.append(name)
    except OSError:
        continue
if not written:
    raise PermissionError

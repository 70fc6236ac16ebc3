"""What runs behind the boundary: the launcher, the fork server, the cell of one job, its program.

Only these files are copied into the sandbox's root, so they import the standard library and each
other alone. They are trusted: everything a job can reach, it reaches as an unprivileged user, after
the filter of `seccomp` is in force.
"""

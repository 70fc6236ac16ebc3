"""The errors that a user can act on.

`BurnishError` is the base of all of them: the command line prints its message without a
traceback and exits with its `exit_code`. A message says what, where, got, expected, and the way out.
"""


class BurnishError(Exception):
    """Something that the user can understand and put right."""

    exit_code = 2


class ConfigError(BurnishError):
    """The user's recipe, option, file or argument is wrong."""


class SandboxError(BurnishError):
    """The sandbox itself failed: never the fault of the code that ran in it."""


class EngineError(BurnishError):
    """What samples failed, or a server that it asks: never the fault of the policy."""


class InvariantError(BurnishError):
    """A guarantee that is checked while a run runs was broken; the run stops and says where to look."""

    exit_code = 3


class RunFolderError(BurnishError):
    """The run folder cannot be read or written (full disk, read-only, used by another run)."""

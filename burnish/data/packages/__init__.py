"""Tasks from real packages: faults planted in published code, kept where the package's own tests show them.

`catalogue` says which packages, `fetch` gets their sdists, `survey` runs their suites and maps lines to tests, `sites`
lists where faults can be, `trial` tries one, `build` makes as many as are asked for and goes on after a kill, `issue`
and `hidden` say what the agent is told and shown. Nothing of a package is executed outside of the sandbox.
docs/terminal_tasks.md has the whole.
"""

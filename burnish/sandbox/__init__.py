"""Run code that a model wrote. Knows files, processes and limits; nothing of RL. No torch here.

`async with open_box("namespaces") as box: outcome = await box.run(Job(source="print(1)"))`
"""

from burnish.sandbox.types import Box, Isolation, Job, Outcome, ResourceLimits

__all__ = ["Box", "Isolation", "Job", "Outcome", "ResourceLimits"]

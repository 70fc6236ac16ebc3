"""Burnish: post-training of large language models, with evidence.

Import the part you need (`burnish.objectives.grpo`, `burnish.domains.documents`); this file
imports nothing, so that the command line answers at once.
"""

__version__ = "0.1.0"

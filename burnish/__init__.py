"""Burnish: post-training of large language models, with evidence.

Import the part you need (`burnish.objectives.grpo`, `burnish.domains.documents`); this file
imports no part, so that the command line answers at once.
"""

import os

# Torch asks the kernel for huge pages if this is there when it takes memory for the first time: large tensors that are
# made anew at each step, gradients above all, then cost half.
os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")

__version__ = "0.1.0"

"""`python -m burnish`."""

from burnish.cli import main

main()

"""``python -m manyheads``: the command line."""

from manyheads.cli import main

main()

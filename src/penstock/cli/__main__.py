"""`python -m penstock.cli`: the command where no script is installed, and in worker processes."""

from penstock.cli import main

main()

"""Run `penstock` as `python -m penstock.cli`.

Worker processes start like this, and it also works where no script is installed.
"""

from penstock.cli import main

main()

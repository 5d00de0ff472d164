"""`python -m marq.cli` is `marq`."""

from marq.cli import main

main()

"""`python -m marq.embedded`: the detached supervisor; started by marq itself, not by users."""

from marq.embedded import detached

detached.main()

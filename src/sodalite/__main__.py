"""`python -m sodalite`: the command line, where the command `sodalite` is not on the path."""

from .cli import main

main()

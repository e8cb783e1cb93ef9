"""`python -m streamlet.cli`: the same command, by whichever Python runs it."""

from streamlet.cli.main import main

if __name__ == "__main__":
    main()

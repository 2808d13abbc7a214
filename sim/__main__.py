"""``python -m staleloc.sim`` is ``staleloc``."""

from staleloc.sim.cli import main

if __name__ == "__main__":
    main()

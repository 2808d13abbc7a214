"""``python -m staleloc.sim`` is ``staleloc``."""

from .cli.main import main

if __name__ == "__main__":
    main()

"""``python -m tunefree``: the command line."""

from tunefree.cli import main

if __name__ == "__main__":
    main()

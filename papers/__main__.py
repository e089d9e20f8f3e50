"""``python -m papers``: see `papers.command`."""

from papers.command import main

if __name__ == "__main__":
    main()

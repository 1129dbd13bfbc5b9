"""``python -m zaplake``."""

from zaplake.cli import main

if __name__ == "__main__":
    main()

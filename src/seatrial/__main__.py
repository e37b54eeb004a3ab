"""``python -m seatrial``: the same entry as the console script."""

from seatrial.cli.main import main

if __name__ == "__main__":
    raise SystemExit(main())

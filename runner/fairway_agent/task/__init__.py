"""One task of a run: its contract and its attempts."""

"""What the runner asks of the program that synthesizes environments."""

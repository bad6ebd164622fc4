"""Programs that machines boot with: those of Slurm's scheduler and nodes, and idle stop.

Standard library only, on Python 3.10 or later. The package travels in a machine's custom data: a
change of its code, apart from comments and docstrings, replaces the machine. So it holds nothing
but these programs and the code that they share with `fairway_agent`.
"""

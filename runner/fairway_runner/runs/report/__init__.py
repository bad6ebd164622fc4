"""A page about a run: one file that needs nothing else, neither a network nor a script.

`data` reads the run, `charts` draws it with `svg`, and `page` puts the page together.
"""

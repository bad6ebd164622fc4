"""A page about a run: one self-contained file that needs no network and no script.

`data` reads the run, `charts` draws it with `svg`, and `page` puts the page together.
"""

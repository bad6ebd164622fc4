"""A page about a run: one file that needs nothing else, neither a network nor a script.

`data` reads the run, `page` puts the page together; the charts are SVG written by hand:
`curves` of metrics, `parallel` coordinates of a sweep, `scaling` over ranks.
"""

"""The nodes: a plain client of any API server that runs pods as processes of this machine."""

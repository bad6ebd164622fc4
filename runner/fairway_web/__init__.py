"""The server of `fairway serve`: the runs of a project in a browser, and over REST.

Pages and REST call the functions that the commands call, and read the same run folders; the server
stores nothing of its own. Needs the extra `serve` (FastAPI, uvicorn and PyJWT).
"""

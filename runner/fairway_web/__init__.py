"""The server of `fairway serve`: the runs of a project in a browser, and by REST.

Pages and REST call the functions that the commands call, and read the run folders that they
read; nothing is kept here. Needs the extra `serve` (FastAPI, uvicorn and PyJWT).
"""

"""The server of `fairway serve`: a project's runs in a browser, and over REST, by functions that
commands call too. It stores nothing of its own. Needs FastAPI, uvicorn and PyJWT."""

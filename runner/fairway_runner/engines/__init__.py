"""Engines: an adapter for each kind of target, all with the interface of `engine.Engine`."""

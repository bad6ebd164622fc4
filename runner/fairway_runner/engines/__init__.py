"""Places where runs happen: an adapter for each kind, all seen through `engine.Engine`."""

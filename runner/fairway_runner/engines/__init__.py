"""Where runs happen: an adapter for each kind of place, all seen through `engine.Engine`."""

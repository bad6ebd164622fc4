"""Commands that a `fairway serve` elsewhere answers, over its REST interface."""

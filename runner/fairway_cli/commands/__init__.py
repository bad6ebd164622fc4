"""The commands of the `fairway` program: each reads its arguments, calls one function, prints."""

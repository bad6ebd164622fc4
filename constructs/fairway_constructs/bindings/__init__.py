"""Bindings of the azurerm provider: their generator, its facts, and what the classes are made of.

`bin/bindings` writes `fairway_constructs.azurerm` for the resources in `selection.toml`
from the facts in `azurerm.json`, which it takes from the provider's own schema.
"""

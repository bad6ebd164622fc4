"""Bindings of the azurerm provider: their generator, its facts, and the base classes.

`bin/bindings` writes `fairway_constructs.azurerm` for the resources in `selection.toml` from the
facts in `azurerm.json`, which it extracts from the provider's own schema.
"""

"""Bindings of hashicorp/azurerm 5.2.0; written by bin/bindings, never edited.

A module holds one resource or data source; import the module that you need.
"""

PROVIDER_SOURCE = "hashicorp/azurerm"
PROVIDER_VERSION = "~> 5.2"

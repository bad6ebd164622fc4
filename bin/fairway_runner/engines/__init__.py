"""Engines run what a launcher's script says: one adapter a place that jobs run on."""

"""CDKTF constructs for training clusters on Azure, one idea a module."""

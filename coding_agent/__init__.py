"""Coding sessions of a person on a machine."""

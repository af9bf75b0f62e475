"""Figures beside their limits, measured in one run: `python -m benches [NAME...] [--json]`."""

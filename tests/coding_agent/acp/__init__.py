"""Tests of the ACP agent; a whole connection is in `tests/flows/test_acp.py`."""

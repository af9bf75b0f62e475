"""Servers of the Model Context Protocol: configured in files, each run as a supervised process, their tools ours."""

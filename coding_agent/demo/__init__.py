"""A host with a busy tree in which things have gone wrong, to look into: for people, for tests, for figures."""

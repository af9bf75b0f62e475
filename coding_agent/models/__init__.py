"""Who could answer here: the catalogue, a person's own models, servers of this machine, and which one it is."""

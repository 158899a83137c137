"""Session YAML, profiles and the graph of nodes, as frozen dataclasses."""

"""HDF5 cases: one file an episode with its rows and videos, in folders by robot, task and session."""

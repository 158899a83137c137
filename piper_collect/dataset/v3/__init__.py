"""LeRobot v3.0: many episodes a file, and a table of which episode lies where."""

"""LeRobot datasets on disk: paths, parquet, video, metadata, commit."""

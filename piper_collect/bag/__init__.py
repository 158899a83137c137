"""rosbag2 folders: storage seam, readers, writers, message decoding; no ROS needed."""

"""Pure arithmetic: no files, no ROS, no clocks; numpy and scipy only."""

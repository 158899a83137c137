"""ROS image bytes to video frames and back, JPEG and PNG, the test strip and the simulated scene."""

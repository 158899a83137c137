"""Thin rclpy shells: callback, core function, publish."""

"""Vendor I/O behind small protocols; no rclpy."""

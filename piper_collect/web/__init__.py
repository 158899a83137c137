"""The pages of a session, the headset's and the desk's, and their servers; nothing here knows ROS."""

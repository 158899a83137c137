"""Hardware and terminal behind small interfaces; vendors' libraries are imported when a device is opened."""

"""The simulated camera as a process of its own: its CameraInfo fits its pictures."""

import math
from dataclasses import replace

import numpy as np
import pytest

from piper_collect.config.schema import CameraSettings, SessionConfig


@pytest.mark.parametrize(("name", "degrees"), [("cam_front", 65.0), ("cam_wrist", 80.0)])
def test_the_intrinsics_are_those_of_the_picture_with_its_stamp_and_frame(rig, name, degrees):
    from sensor_msgs.msg import CameraInfo, CompressedImage

    config = replace(SessionConfig(), cameras={name: CameraSettings(width=320, height=200)})
    pictures = rig.listen(CompressedImage, f"/{name}/image_raw/compressed")
    infos = rig.listen(CameraInfo, f"/{name}/camera_info")
    rig.start("camera_sim_node", config, camera=name)
    rig.until(lambda: len(infos) > 3 and len(pictures) > 3, "the camera is silent")
    stamps = {(p.header.stamp.sec, p.header.stamp.nanosec) for p in pictures}
    both = [i for i in infos if (i.header.stamp.sec, i.header.stamp.nanosec) in stamps]
    assert len(both) >= 3
    for info in both:
        assert info.header.frame_id == pictures[0].header.frame_id == f"{name}_color_optical_frame"
        assert (info.width, info.height) == (320, 200)
        matrix, projection = info.k.reshape(3, 3), info.p.reshape(3, 4)
        edge = matrix @ [math.tan(math.radians(degrees / 2)), 0.0, 1.0]
        np.testing.assert_allclose(edge, [320.0, 100.0, 1.0], atol=1e-9)  # the picture's right edge
        np.testing.assert_array_equal(projection[:, :3], matrix)
        np.testing.assert_array_equal(info.r.reshape(3, 3), np.eye(3))
        assert (info.distortion_model, list(info.d)) == ("plumb_bob", [0.0] * 5)

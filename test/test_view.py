"""An episode for the viewer: what is shown is what was recorded, at the time it was captured."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest
from dataset_edits import edit_line
from export_cases import rows, run, small_bag, sources, video_times
from rrd_support import chunks, column
from sample_bags import MS, START, arm_messages, custom, picture, raw_image, write_bag
from test_edit_foreign import plain

from piper_collect.cli.main import main
from piper_collect.config.load import dump_session
from piper_collect.core.kinematics import JOINT_NAMES, PiperKinematics
from piper_collect.errors import ConfigError, DatasetError
from piper_collect.imaging.frames import to_rgb
from piper_collect.pipelines.scenes import bag_scene, dataset_scene
from piper_collect.report import rerun_stream, rerun_view


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("view")
    bag = small_bag(folder / "s" / "episode_000000", rows=6)
    for profile in ("train", "piper"):
        run(bag, folder / profile, profile)
    return folder


def cells(root, key):
    return np.array(rows(root)[key].to_pylist())


def test_a_dataset_of_capture_times(made):
    root = made / "piper"
    scene, urdf = dataset_scene(root, 0)
    t0 = sources(root)[0]["t0_ns"]
    samples = pq.ParquetFile(root / "extras/episode_000000.samples.parquet").read()
    assert (scene.clock, scene.task) == ("capture_time", "pick the cube")
    assert scene.joints.names == JOINT_NAMES
    # the dataset's reader takes the times of all that was measured from its poses
    assert np.abs(scene.joints.time_ns - samples["arm_eef"].to_numpy()).max() <= 1
    assert np.array_equal(
        scene.joints.values.astype(np.float32), cells(root, "observation.arm_joint").astype(np.float32)
    )
    assert np.abs(scene.poses["target"].time_ns - samples["target_eef"].to_numpy()).max() <= 1
    assert np.allclose(scene.poses["target"].values, cells(root, "action.arm_eef"))
    assert np.allclose(scene.widths["measured"].values, cells(root, "observation.gripper"))
    pts = video_times(root / "videos/chunk-000/observation.images.cam/episode_000000.mp4")
    assert scene.videos["cam"].time_ns.tolist() == [t0 + round(p * 10**9) for p in pts]
    assert scene.videos["cam"].pts_ns.tolist() == [round(p * 10**9) for p in pts]
    assert '<robot name="piper">' in urdf


def test_a_grid_shows_each_sample_once_at_its_own_time(made):
    root = made / "train"
    scene, _ = dataset_scene(root, 0)
    t0 = sources(root)[0]["t0_ns"]
    stamped = t0 + np.round(cells(root, "source_timestamp.cam") * 1e9).astype(np.int64)
    state = cells(root, "source_state.cam")
    video = scene.videos["cam"]
    assert video.time_ns.tolist() == sorted(set(stamped.tolist()))
    assert len(video.time_ns) == np.count_nonzero(state == 0)
    assert not np.any((video.time_ns - t0) % (10**9 // 30) == 0), "frames lie between the rows of the grid"
    first = [int(np.flatnonzero(stamped == t)[0]) for t in video.time_ns]
    assert video.pts_ns.tolist() == [round(row * 1e9 / 30) for row in first]
    measured = t0 + np.round(cells(root, "source_timestamp.arm_eef") * 1e9).astype(np.int64)
    assert scene.poses["measured"].time_ns.tolist() == sorted(set(measured.tolist()))


def test_a_bag_is_shown_at_its_full_rate(made):
    scene, _ = bag_scene(made / "s" / "episode_000000")
    assert scene.clock == "capture_time"
    assert np.diff(scene.poses["measured"].time_ns).tolist() == [5 * MS] * (len(scene.joints.time_ns) - 1)
    assert scene.joints.time_ns[0] == START
    shown = list(scene.pictures["cam"]())
    assert [p.time_ns - START for p in shown[:3]] == [round((1 + k * 100 / 3) * MS) for k in range(3)]
    assert {p.media_type for p in shown} == {"image/jpeg"}
    assert all(p.encoded.startswith(b"\xff\xd8") for p in shown)


def test_raw_pictures_become_jpeg(tmp_path):
    from dataclasses import replace

    from export_cases import session

    from piper_collect.core.types import CameraFrame

    config = session()
    config = replace(config, cameras={"cam": replace(config.cameras["cam"], transport="raw")})
    pixels = picture((200, 30, 40), height=16, width=32)
    messages = [*arm_messages(20), ("/cam/image_raw", START + 9 * MS, raw_image(START + 2 * MS, pixels))]
    bag = write_bag(tmp_path / "b", messages, custom(end_ms=90, session_config=dump_session(config)))
    (shown,) = bag_scene(bag)[0].pictures["cam"]()
    frame = CameraFrame(
        stamp_ns=0, encoding="jpeg", height=0, width=0, step=0, payload=memoryview(shown.encoded)
    )
    assert np.abs(to_rgb(frame).astype(int) - (200, 30, 40)).max() < 8


def test_the_arm_is_drawn_with_the_zeros_that_were_recorded(made, tmp_path):
    import shutil

    root = shutil.copytree(made / "train", tmp_path / "ds")
    _, new = dataset_scene(root, 0)
    edit_line(root, "collection_sessions.jsonl", 0, lambda r: r["arm"].update(dh_offset="older"))
    _, old = dataset_scene(root, 0)
    assert new != old
    assert "-1.75894282" in old


def test_without_provenance_or_motion_there_is_less_to_show(tmp_path):
    scene, _ = dataset_scene(plain(tmp_path / "ds"), 1)
    assert scene.clock == "episode_time"
    assert np.allclose(np.diff(scene.joints.time_ns), 1e9 / 30, atol=100)
    with pytest.raises(DatasetError, match="no such episode"):
        dataset_scene(tmp_path / "ds", 3)
    info = tmp_path / "ds/meta/info.json"
    content = json.loads(info.read_text())
    content["features"] = {k: f for k, f in content["features"].items() if not k.startswith("action")}
    info.write_text(json.dumps(content))
    scene, _ = dataset_scene(tmp_path / "ds", 1)
    assert (scene.joints, scene.poses) == (None, {})
    assert "no motion is shown" in scene.notes[0]


def test_the_words_are_checked_and_a_missing_viewer_is_named(made, monkeypatch, capsys):
    for words, why in (
        ([made / "train", "--config", "default"], "--config is not for this"),
        ([made / "s" / "episode_000000", "--episode", "1"], "--episode is not for this"),
    ):
        assert main(["view", *map(str, words)]) == 1
        assert why in capsys.readouterr().err

    def missing(name):
        raise ImportError(f"No module named {name!r}")

    monkeypatch.setattr(rerun_stream.importlib, "import_module", missing)
    scene, urdf = dataset_scene(made / "train", 0)
    with pytest.raises(ConfigError, match=r"Rerun is not installed.*piper_collect\[view\]"):
        rerun_view.show(scene, urdf, made / "x.rrd")


def matrix(translation, xyzw):
    x, y, z, w = xyzw
    pose = np.eye(4)
    pose[:3, :3] = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
        [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
        [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
    ]
    pose[:3, 3] = translation
    return pose


@pytest.mark.parametrize("kind", ["train", "bag"])
def test_the_file_for_rerun_holds_all_of_it(made, tmp_path, kind):
    pytest.importorskip("rerun", reason="rerun-sdk is not installed (pip install '.[view]')")
    path = made / ("train" if kind == "train" else "s/episode_000000")
    assert main(["view", str(path), "--save", str(tmp_path / "x.rrd")]) == 0
    scene, _ = dataset_scene(path, 0) if kind == "train" else bag_scene(path)
    found = chunks(tmp_path / "x.rrd")
    kinematics = PiperKinematics("s_v1_6_3")
    chain = []
    for name in JOINT_NAMES:
        times, moved = column(found[f"/world/joints/{name}"], "Transform3D:translation")
        assert times.tolist() == scene.joints.time_ns.tolist()
        turned = column(found[f"/world/joints/{name}"], "Transform3D:quaternion")[1]
        chain.append([matrix(t, q) for t, q in zip(moved, turned, strict=True)])
    for row, q in enumerate(scene.joints.values):
        pose = np.linalg.multi_dot([links[row] for links in chain])
        assert np.allclose(pose[:3, 3], kinematics.forward(q)[:3], atol=1e-5)
    times, moved = column(found["/world/poses/target"], "Transform3D:translation")
    assert times.tolist() == scene.poses["target"].time_ns.tolist()
    assert np.allclose(moved, scene.poses["target"].values[:, :3], atol=1e-6)
    times, widths = column(found["/gripper/measured"], "Scalars:scalars")
    assert np.allclose(widths, scene.widths["measured"].values[:, 0])
    if kind == "train":
        times, _ = column(found["/cameras/cam"], "VideoFrameReference:timestamp")
        assert times.tolist() == scene.videos["cam"].time_ns.tolist()
        video = next(b for b in found["/cameras/cam"] if "AssetVideo:blob" in b.schema.names)
        assert bytes(video["AssetVideo:blob"].to_pylist()[0][0]) == scene.videos["cam"].read()
    else:
        shown = {p.time_ns: p.encoded for p in scene.pictures["cam"]()}
        seen = {}
        for batch in found["/cameras/cam"]:
            if "EncodedImage:blob" in batch.schema.names:
                times = batch["capture_time"].cast("int64").to_pylist()
                seen |= dict(
                    zip(times, (bytes(b[0]) for b in batch["EncodedImage:blob"].to_pylist()), strict=True)
                )
        assert seen == shown

"""``piper-collect view``: an episode in the Rerun viewer."""

import argparse
from pathlib import Path

DESCRIPTION = """\
Show an episode of a dataset, or a recording, in the Rerun viewer: cameras, the arm by its joints, trails of
the target and of the measured pose, plots of position, joints and gripper, all at the time of capture.

Needs pip install 'piper_collect[view]'. A dataset's videos are shown as they are; for H.264 the viewer needs
ffmpeg on this machine.
"""

EPILOG = """\
examples:
  piper-collect view ~/piper_datasets/pick --episode 3
  piper-collect view ~/piper_recordings/pick_20260101_120000/episode_000003
  piper-collect view ~/piper_datasets/pick --save episode.rrd     # then: rerun episode.rrd
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument("path", type=Path, metavar="ROOT|BAG", help="a dataset, or a bag")
    parser.add_argument(
        "--episode", type=int, metavar="N", help="which episode of a dataset (default: the first)"
    )
    parser.add_argument(
        "--save", type=Path, metavar="FILE", help="write FILE.rrd instead of starting the viewer"
    )
    parser.add_argument(
        "--config", metavar="YAML", help="for a bag: how to read it (default: as it was recorded)"
    )


def run(args: argparse.Namespace) -> int:
    """Show it; 0 when it is sent, or written."""
    from piper_collect.config.load import load_session
    from piper_collect.dataset.layout import META
    from piper_collect.errors import ConfigError
    from piper_collect.pipelines.scenes import bag_scene, dataset_scene
    from piper_collect.report.rerun_view import show
    from piper_collect.report.tables import print_lines

    is_dataset = (args.path / META).is_dir()
    for name, wrong, got in (("config", is_dataset, "a dataset"), ("episode", not is_dataset, "a bag")):
        if wrong and getattr(args, name) is not None:
            raise ConfigError(f"--{name} is not for this", where=args.path, got=got)
    if args.save is not None and args.save.suffix != ".rrd":
        raise ConfigError(
            "no such kind of file", where="--save", expected="a name that ends in .rrd", got=args.save
        )
    if is_dataset:
        scene, urdf = dataset_scene(args.path, args.episode or 0)
    else:
        scene, urdf = bag_scene(args.path, load_session(args.config) if args.config else None)
    show(scene, urdf, args.save)
    print_lines(f"note: {note}" for note in scene.notes)
    if args.save is not None:
        print_lines([f"wrote {args.save}"])
    return 0

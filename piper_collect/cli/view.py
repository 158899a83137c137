"""``piper-collect view``: an episode, or a session that runs, in the Rerun viewer."""

import argparse
from pathlib import Path

DESCRIPTION = """\
Show an episode of a dataset, or a recording, in the Rerun viewer: cameras, the arm by its joints, trails of
the target and of the measured pose, plots of position, joints and gripper, all at the time of capture.

With --live: a session that runs, from its topics, until Ctrl-C. It listens only, and shows the newest of each
topic (numbers 30 times a second, pictures 10), as nobody sees more; all of it is in the recording.

Needs pip install 'piper_collect[view]'. A dataset's videos are shown as they are; for H.264 the viewer needs
ffmpeg on this machine.
"""

EPILOG = """\
examples:
  piper-collect view ~/piper_datasets/pick --episode 3
  piper-collect view ~/piper_recordings/pick_20260101_120000/episode_000003
  piper-collect view ~/piper_datasets/pick --save episode.rrd     # then: rerun episode.rrd
  piper-collect view --live --config my_session.yaml
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument("path", type=Path, nargs="?", metavar="ROOT|BAG", help="a dataset, or a bag")
    parser.add_argument("--live", action="store_true", help="a session that runs, instead of ROOT or BAG")
    parser.add_argument(
        "--episode", type=int, metavar="N", help="which episode of a dataset (default: the first)"
    )
    parser.add_argument(
        "--save", type=Path, metavar="FILE", help="write FILE.rrd instead of starting the viewer"
    )
    parser.add_argument(
        "--config",
        metavar="YAML",
        help="for a bag: how to read it (default: as it was recorded); with --live: the session's (default: "
        "the one that `record` takes)",
    )


def run(args: argparse.Namespace) -> int:
    """Show it; 0 when it is sent, or written."""
    from piper_collect.errors import UsageError

    if args.live == (args.path is not None):
        raise UsageError(
            "nothing to show" if args.path is None else "one thing at a time",
            where="view",
            expected="either a dataset or a bag, or --live",
        )
    if args.save is not None and args.save.suffix != ".rrd":
        raise UsageError(
            "no such kind of file", where="--save", expected="a name that ends in .rrd", got=args.save
        )
    return _live(args) if args.live else _recorded(args)


def _recorded(args: argparse.Namespace) -> int:
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
    if is_dataset:
        scene, urdf = dataset_scene(args.path, args.episode or 0)
    else:
        scene, urdf = bag_scene(args.path, load_session(args.config) if args.config else None)
    show(scene, urdf, args.save)
    print_lines(f"note: {note}" for note in scene.notes)
    if args.save is not None:
        print_lines([f"wrote {args.save}"])
    return 0


def _live(args: argparse.Namespace) -> int:
    import tempfile

    from piper_collect.config.load import dump_session, load_session
    from piper_collect.errors import UsageError
    from piper_collect.nodes.start import start_node

    if args.episode is not None:
        raise UsageError("--episode is not for this", where="--live")
    config = load_session(args.config or "default")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "session.yaml"
        file.write_text(dump_session(config), encoding="utf-8")
        words = ["--ros-args", "--params-file", str(file)]
        if config.session.namespace:
            words += ["-r", f"__ns:=/{config.session.namespace}"]
        if args.save is not None:
            words += ["-p", f"save:={args.save.resolve()}"]
        return start_node("view_node", words)

"""``piper-collect replay``: move the arm as a recorded episode says, and say how near it came."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from piper_collect.config.schema import SessionConfig
    from piper_collect.pipelines.replay import Replay
    from piper_collect.pipelines.replay_report import ReplayReport
    from piper_collect.pipelines.replay_run import ReplayEnd

DESCRIPTION = """\
Moves the arm of --config (a simulated one by default) slowly to the first pose of a recorded episode, replays
the recorded targets at their true times through the same limits as teleoperation, holds, and says how far the
arm was from the recording and from the commands. The dataset is only read.

Before anything moves it is found out whether every target is inside the workspace box and can be reached.
The space bar or Ctrl-C stops it: the arm holds.
"""

EPILOG = """\
exit code: 0 replayed, 1 refused or stopped by a fault, 130 stopped by you

examples:
  piper-collect replay ~/datasets/cups --episode 0 --dry-run --plot cups.svg
  piper-collect replay ~/datasets/cups --episode 0 --report cups.html
  piper-collect replay ~/datasets/cups --episode 3 --config my_session.yaml --speed 0.5
"""

EXIT_INTERRUPTED = 130


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument("root", type=Path, metavar="ROOT", help="folder of the dataset")
    parser.add_argument("--episode", type=int, required=True, metavar="N", help="number of the episode")
    parser.add_argument(
        "--config",
        default="default",
        metavar="YAML",
        help="session YAML that says which arm, and its limits (default: %(default)s, a simulated arm)",
    )
    parser.add_argument(
        "--speed",
        type=float,
        default=1.0,
        metavar="X",
        help="0.05 or more; 1 is as recorded (default), more only as far as no limit acts",
    )
    parser.add_argument("--dry-run", action="store_true", help="start no node: check, simulate, report")
    parser.add_argument("--report", type=Path, metavar="FILE.html", help="write the report as one HTML file")
    parser.add_argument("--plot", type=Path, metavar="FILE.svg", help="write the plots as one SVG file")
    parser.add_argument("--yes", action="store_true", help="move a real arm without asking")
    parser.add_argument(
        "--strict-binding", action="store_true", help="refuse an episode recorded under other control"
    )


def run(args: argparse.Namespace) -> int:
    """Replay; 0 when all of the episode was."""
    from piper_collect.config.load import load_session
    from piper_collect.pipelines.replay import prepare_replay
    from piper_collect.pipelines.replay_report import replay_report

    _check_files(args)
    config = load_session(args.config)
    replay = prepare_replay(
        args.root, args.episode, config, speed=args.speed, strict_binding=args.strict_binding
    )
    _print_plan(replay)
    if args.dry_run:
        report = replay_report(replay, replay.rehearsal, simulated=True)
        _print_report(args, report)
        return 0
    _confirm(config, asked=not args.yes)
    return _replay(args, replay)


def _replay(args: argparse.Namespace, replay: "Replay") -> int:
    from piper_collect.pipelines.replay_report import replay_report
    from piper_collect.pipelines.replay_run import run_replay

    end = run_replay(replay.config, replay.plan)
    for line in _faults(end):
        print(line, file=sys.stderr)
    if end.log is not None and end.log.running.any():
        _print_report(args, replay_report(replay, end.log, simulated=False))
    elif end.interrupted:
        print("stopped before the episode began")
    if end.interrupted and not end.killed:
        return EXIT_INTERRUPTED
    return 0 if end.ok else 1


def _check_files(args: argparse.Namespace) -> None:
    from piper_collect.errors import ConfigError, UsageError

    for option, path, suffix in (("--report", args.report, ".html"), ("--plot", args.plot, ".svg")):
        if path is None:
            continue
        if path.suffix.lower() != suffix:
            raise UsageError(
                "no such kind of file", where=option, expected=f"a name that ends in {suffix}", got=path
            )
        if not path.resolve().parent.is_dir():
            raise ConfigError("the folder is not there", where=option, got=path.resolve().parent)
        if path.resolve().is_relative_to(args.root.resolve()):
            raise ConfigError(
                "the dataset is only read", where=option, expected="a file outside it", got=path
            )


def _confirm(config: "SessionConfig", *, asked: bool) -> None:
    """A person says yes before a real arm moves.

    Raises:
        SessionError: Nobody is there to ask, or the answer is another.
    """
    from piper_collect.errors import SessionError

    if config.devices.arm == "sim" or not asked:
        return
    if not sys.stdin.isatty():
        raise SessionError(
            "a real arm moves only when a person says so",
            where="--config",
            got=f"devices.arm: {config.devices.arm}, and no terminal",
            hint="run it in a terminal, or add --yes",
        )
    print("The arm will move. Is the workspace clear, and a hand at the emergency stop?")
    try:
        answer = input('Type "yes" to start: ')
    except EOFError:
        answer = ""
    if answer.strip().lower() != "yes":
        raise SessionError("nothing was moved: the answer was not yes")


def _print_plan(replay: "Replay") -> None:
    from piper_collect.core.kinematics import WORKING_POSE_RAD
    from piper_collect.core.replay import approach_s
    from piper_collect.pipelines.replay import greatest_speed
    from piper_collect.report.tables import print_lines

    episode, plan = replay.episode, replay.plan
    targets, settings = episode.targets, plan.settings
    x, y, z = targets.pose7[0, :3]
    width = "" if targets.width_m is None else f", gripper {targets.width_m[0] * 1e3:.1f} mm"
    way = f"approached with {settings.approach_rad_s:g} rad/s at most"
    if replay.config.devices.arm == "sim":
        way += f", in {approach_s(plan, WORKING_POSE_RAD):.1f} s"
    lines = [
        f"{replay.root}, episode {episode.index}: {episode.task}",
        f"  {len(targets.time_s)} targets over {targets.duration_s:.2f} s;"
        f" at --speed {plan.speed:g} that takes {targets.duration_s / plan.speed:.2f} s",
        *(f"  {what}: {columns}" for what, columns in episode.sources.items()),
        f"  first pose: x {x:.3f}, y {y:.3f}, z {z:.3f} m{width}; {way}",
        "  every target is inside the workspace box and can be reached;"
        f" speeds up to {greatest_speed(replay.reach):g} are possible",
    ]
    lines += [f"warning: recorded with {b.key} {b.old}, now {b.new}" for b in replay.binding.changed]
    lines += [f"note: {note}" for note in replay.notes]
    print_lines(lines)
    sys.stdout.flush()


def _print_report(args: argparse.Namespace, report: "ReplayReport") -> None:
    from piper_collect.pipelines.replay_report import COLUMNS, lateness, write_page, write_plot
    from piper_collect.report.tables import print_lines, print_table

    print_table(report.title, COLUMNS, report.table())
    lines = [report.verdict]
    lines += [
        f"{limit} kept {ticks} commands from their targets" for limit, ticks in report.log.limits.items()
    ]
    lines += lateness(report.log)
    if args.report is not None:
        write_page(args.report, report)
        lines.append(f"wrote {args.report}")
    if args.plot is not None:
        write_plot(args.plot, report)
        lines.append(f"wrote {args.plot}")
    print_lines(lines)


def _faults(end: "ReplayEnd") -> list[str]:
    lines = []
    for name, code in end.failed.items():
        if name == "replay":
            lines.append(f"error: {end.log.reason if end.log is not None else _broken(code)}")
        else:
            lines.append(f"error: {name} ended by itself with exit code {code}; the replay was stopped")
    return [*lines, *(f"error: {name} did not stop and was killed" for name in end.killed)]


def _broken(code: int) -> str:
    """What is said of a replay whose node ended and left no log."""
    if code < 0:
        return f"the node of the replay was killed by signal {-code}: the arm holds what it was told last"
    return f"the node of the replay ended with exit code {code}; the lines above say why"

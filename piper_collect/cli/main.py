"""The program ``piper-collect``: a table of verbs, each imported only when it is called."""

import argparse
import contextlib
import importlib
import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from piper_collect import __version__
from piper_collect.errors import PiperCollectError, UsageError

PROGRAM = "piper-collect"

VERBS: dict[str, tuple[str, str]] = {
    "demo": ("piper_collect.cli.demo", "record and export simulated episodes, and show what came out"),
    "doctor": ("piper_collect.cli.doctor", "say what is missing or wrong before a session, and what to do"),
    "record": ("piper_collect.cli.record", "run a collection session: arm, cameras, operator, recorder"),
    "keyboard": ("piper_collect.cli.keyboard", "drive a running session with the keys of this terminal"),
    "recover": ("piper_collect.cli.recover", "make whole bags of unfinished and damaged recordings"),
    "info": ("piper_collect.cli.info", "say on one screen what a dataset or a recording holds"),
    "export": ("piper_collect.cli.export", "make a dataset from bags, or add them to one"),
    "convert": ("piper_collect.cli.convert", "write a dataset in another format"),
    "edit": ("piper_collect.cli.edit", "take episodes out of a dataset"),
    "merge": ("piper_collect.cli.merge", "make one dataset of several"),
    "prune": ("piper_collect.cli.prune", "remove bags whose episodes are in a dataset"),
    "finalize": ("piper_collect.cli.finalize", "write statistics of relative and delta actions"),
    "validate": ("piper_collect.cli.validate", "judge a dataset or a bag"),
    "view": ("piper_collect.cli.view", "show an episode or a recording in the Rerun viewer"),
    "push": ("piper_collect.cli.push", "upload a dataset to the Hugging Face Hub, with a card"),
    "replay": ("piper_collect.cli.replay", "move the arm as a recorded episode says, and compare"),
    "node": ("piper_collect.cli.node", "run one ROS node of this package"),
}
"""Verb → (module with ``add_arguments(parser)`` and ``run(args) -> int``, one line of help).

A module may have a ``DESCRIPTION`` and an ``EPILOG`` for its help; what is heavy it imports in ``run``.
"""

ALIASES = {"exporter": "export", "piper-finalize": "finalize"}
"""Other names under which a verb is installed as an executable."""

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130
EXIT_CODES = """\
exit codes of every verb: 0 done, 1 something failed, 2 wrong words on the command line (usage), 130 Ctrl-C
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb.

    Args:
        argv: Arguments without the program's name; those of the process by default.

    Returns:
        The exit code: 0, 1 when something failed, 2 after a usage error, 130 after Ctrl-C.

    Raises:
        SystemExit: With 0 after help, with 2 where argparse finds the usage error.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    _never_fail_to_print()
    parser = _parser(words[0] if words else "")
    if any("\0" in word for word in words):  # no file and no topic has it in its name
        parser.error("an argument holds a NUL character")
    if any(word.partition("=")[2] == "--" or word[2:] == "--" for word in words if word[:1] == "-"):
        parser.error("the value of an option is --")  # argparse would hand on an empty list
    args = parser.parse_args(words)
    try:
        code = importlib.import_module(VERBS[args.verb][0]).run(args)
        sys.stdout.flush()
        return int(code)
    except UsageError as err:
        args.called.print_usage(sys.stderr)
        print(f"{args.called.prog}: error: {err}", file=sys.stderr)
        return EXIT_USAGE
    except PiperCollectError as err:
        print(f"error: {err}", file=sys.stderr)
        return EXIT_FAILED
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # the reader of a pipe has gone; the interpreter must not fail again when it flushes
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_FAILED
    except OSError as err:  # a name that no file can have, a disk that is gone
        where = ": ".join(ascii(name) for name in (err.filename, err.filename2) if name is not None)
        print(f"error: {where + ': ' if where else ''}{err.strerror or err}", file=sys.stderr)
        return EXIT_FAILED


def main_as(program: str, argv: Sequence[str]) -> int:
    """Run what the executable is named after: a verb, or a node; otherwise the verb in ``argv``."""
    name = Path(program).name
    if name.endswith("_node"):
        return main(["node", name, *argv])
    verb = ALIASES.get(name, name)
    return main([verb, *argv] if verb in VERBS else argv)


def main_as_called() -> int:
    """Run this process's arguments under the name it was started by."""
    return main_as(sys.argv[0], sys.argv[1:])


def _parser(verb: str) -> argparse.ArgumentParser:
    """The parser with the arguments of one verb; the others are named only."""
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Record Piper demonstrations as bags and export them as datasets.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"{PROGRAM} {__version__}")
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    for name, (module, about) in VERBS.items():
        child = verbs.add_parser(name, help=about, formatter_class=argparse.RawDescriptionHelpFormatter)
        child.description = about[:1].upper() + about[1:] + "."
        if name == verb:
            called = importlib.import_module(module)
            child.description = getattr(called, "DESCRIPTION", child.description)
            child.epilog = "\n".join(filter(None, (getattr(called, "EPILOG", ""), EXIT_CODES)))
            child.set_defaults(called=child)
            called.add_arguments(child)
    return parser


def _never_fail_to_print() -> None:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            with contextlib.suppress(ValueError):  # detached or closed: nothing will be printed
                stream.reconfigure(errors="backslashreplace")


if __name__ == "__main__":
    sys.exit(main())

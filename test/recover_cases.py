"""Recordings as a killed recorder leaves them, made without one, for the tests of ``recover``.

As a program, it kills a recovery at every one of its file operations.
"""

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from sample_bags import MS, START, arm_messages, camera_messages, store

from piper_collect.bag.backends import choose_storage
from piper_collect.bag.reader import open_bag
from piper_collect.bag.recording import EpisodeRecording
from piper_collect.bag.session_folder import SessionFolder
from piper_collect.bag.storage import TopicInfo
from piper_collect.config.load import dump_session
from piper_collect.config.schema import SessionConfig
from piper_collect.pipelines.recover import recover

SESSION = "pick_20260101_120000"
CONFIG = dump_session(SessionConfig(cameras={}))
RECORD = {"session": SESSION, "task": "pick the cube", "arm": {"firmware": "S-V1.5-2"}}


def arm_rows(count):
    """(topic, receive time, CDR) of our three topics, ``count`` of each, 5 ms apart."""
    return [(t, at, bytes(store().serialize_cdr(m, m.__msgtype__))) for t, at, m in arm_messages(count)]


def topics_of(messages):
    kinds = {topic: message.__msgtype__ for topic, _, message in messages}
    return [
        TopicInfo(name=t, type=k, message_definition=store().generate_msgdef(k, ros_version=2)[0])
        for t, k in kinds.items()
    ]


TOPICS = topics_of([*arm_messages(1), *camera_messages("cam", [0])])[:3]


class Studio:
    """A session whose recorder can be stopped at any moment.

    Args:
        root: Recording root.
        storage: ``mcap`` or ``sqlite3``.
    """

    def __init__(self, root: Path, storage: str = "mcap") -> None:
        self.folder = SessionFolder(root, SESSION)
        self.folder.prepare(CONFIG, RECORD)
        self._storage = choose_storage(storage, "pip")

    def begin(self) -> EpisodeRecording:
        return EpisodeRecording(
            self.folder,
            storage=self._storage,
            topics=TOPICS,
            task="pick the cube",
            start_ns=START,
            session_yaml=CONFIG,
            session_record={**RECORD, "recording": {"storage": self._storage.record()}},
        )

    def kill(self, count: int = 200, flush_each: int = 60) -> Path:
        """An unfinished recording of ``count`` messages a topic; what came after the last flush is lost."""
        recording = self.begin()
        for number, (topic, at, payload) in enumerate(arm_rows(count)):
            recording._writer.write(topic, payload, at)
            if number % flush_each == flush_each - 1:
                recording._writer.flush_due(float(number))
        aside = recording.path.with_name("aside")
        shutil.copytree(recording.path, aside)
        recording.abandon()
        aside.rename(recording.path)
        return recording.path

    def save(self, count: int = 20) -> Path:
        """A saved episode."""
        recording = self.begin()
        for topic, at, payload in arm_rows(count):
            recording.write(topic, payload, at)
        counts = {t.name: {"type": t.type, "required": True, "messages": count, "lost": 0} for t in TOPICS}
        path, _ = recording.finish(
            end_ns=START + count * 5 * MS, outcome="success", incomplete_reasons=[], topics=counts
        )
        return path


def rows_of(path):
    """(topic, receive time, CDR) of a bag that must be whole."""
    with open_bag(path) as bag:
        assert (bag.notes, bag.incomplete) == ([], False)
        return [(m.topic, m.receive_ns, m.payload) for m in bag.messages()]


def tree(folder):
    """Every file below a folder with its content."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


STEPS = ("rename", "replace", "mkdir", "unlink", "rmdir")


def killed_at(step: int, act: Callable[[], None]) -> bool:
    """Act in a process that dies at this file operation; whether it came so far."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    left = [step]

    def counted(real):
        def call(*args, **kwargs):
            left[0] -= 1
            if left[0] == 0:
                os._exit(9)
            return real(*args, **kwargs)

        return call

    for name in STEPS:
        setattr(os, name, counted(getattr(os, name)))
    act()
    os._exit(0)


def kill_at_every_step(folder: Path, *, delete: bool) -> int:
    """How many kills it survived: the original is there until its episode is, and the next run goes on."""
    root, again = folder / "root", folder / "again"
    studio = Studio(root)
    studio.save(3)
    left = studio.kill(10, flush_each=6)
    shutil.copytree(root, again)
    original, rows = tree(left), arm_rows(10)
    places = (left, left.with_name("original_of_episode_000001"))
    episode = root / SESSION / "episode_000001"

    def act() -> None:
        recover([root], delete_original=delete)

    act()
    goal = tree(root)
    for step in range(1, 60):
        shutil.rmtree(root)
        shutil.copytree(again, root)
        if not killed_at(step, act):
            return step - 1
        kept = [tree(place) for place in places if place.is_dir()]
        if kept != [original] and not (delete and episode.is_dir()):
            raise SystemExit(f"step {step}: the original is not as it was")
        if episode.is_dir() and rows_of(episode) != rows:
            raise SystemExit(f"step {step}: the episode is not whole")
        act()
        # what was to be removed and had its new name already stays, under that name
        gone = {name for name in tree(root) if "original_of" in name} if delete else set()
        found = {name: content for name, content in tree(root).items() if name not in gone}
        if found != goal:
            raise SystemExit(f"step {step}: the next run ended elsewhere: {sorted(found)}")
    raise SystemExit("it never ended")


if __name__ == "__main__":
    os.fsync = lambda descriptor: None
    print(kill_at_every_step(Path(sys.argv[1]), delete="delete" in sys.argv[2:]))

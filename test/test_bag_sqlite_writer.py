"""Our own sqlite3 bags: rosbag2's tables, a bag at rest without a log, and who may not be in the way."""

import sqlite3
from contextlib import closing

import pytest
import yaml
from sample_bags import make_writer

from piper_collect.bag.storage import QosProfile, TopicInfo
from piper_collect.errors import BagError

pytestmark = pytest.mark.usefixtures("no_sync")

STRING = "std_msgs/msg/String"
PAYLOAD = b"\x00\x01\x00\x00\x02\x00\x00\x00x\x00"
TABLES = {
    "schema": ["schema_version", "ros_distro"],
    "metadata": ["id", "metadata_version", "metadata"],
    "topics": ["id", "name", "type", "serialization_format", "offered_qos_profiles", "type_description_hash"],
    "message_definitions": [
        *("id", "topic_type", "encoding", "encoded_message_definition", "type_description_hash"),
    ],
    "messages": ["id", "topic_id", "timestamp", "data"],
}
"""Version 4, as rosbag2 has had it since Iron."""


def topic(name, **known):
    return TopicInfo(
        name=name, type=STRING, type_hash="RIHS01_0", message_definition="string data\n", **known
    )


def opened(uri):
    writer = make_writer("sqlite3")
    writer.open(uri, {"task": "pick"})
    writer.create_topic(topic("/a", qos=(QosProfile(depth=3),)))
    writer.create_topic(topic("/b"))
    for name, receive_ns in (("/b", 7), ("/a", 5), ("/b", 9)):
        writer.write(name, PAYLOAD, receive_ns)
    return writer


@pytest.fixture
def database(tmp_path, monkeypatch):
    monkeypatch.setenv("ROS_DISTRO", "jazzy")
    opened(tmp_path / "bag").close({"outcome": "success"})
    with closing(sqlite3.connect(tmp_path / "bag" / "bag_0.db3")) as found:
        yield found


def test_the_tables_are_those_of_rosbag2(database):
    query = "SELECT name FROM sqlite_master WHERE type = 'table'"
    names = [name for (name,) in database.execute(query)]
    assert {n: [row[1] for row in database.execute(f"PRAGMA table_info({n})")] for n in names} == TABLES
    (index,) = database.execute("SELECT name, tbl_name FROM sqlite_master WHERE type = 'index'")
    assert index == ("timestamp_idx", "messages")
    assert database.execute("PRAGMA index_info(timestamp_idx)").fetchall() == [(0, 2, "timestamp")]


def test_the_rows_are_those_of_rosbag2(database):
    assert database.execute("SELECT * FROM schema").fetchall() == [(4, "jazzy")]
    assert database.execute("SELECT * FROM messages").fetchall() == [
        (1, 2, 7, PAYLOAD),
        (2, 1, 5, PAYLOAD),
        (3, 2, 9, PAYLOAD),
    ]
    (first, second) = database.execute("SELECT * FROM topics ORDER BY id").fetchall()
    assert (first[:4], first[5]) == ((1, "/a", STRING, "cdr"), "RIHS01_0")
    assert [(q["depth"], q["reliability"]) for q in yaml.safe_load(first[4])] == [(3, "reliable")]
    assert second == (2, "/b", STRING, "cdr", "[]", "RIHS01_0")
    assert database.execute("SELECT * FROM message_definitions").fetchall() == [
        (1, STRING, "ros2msg", "string data\n", "RIHS01_0")
    ]


def test_metadata_of_the_opening_and_of_the_close_is_inside(database):
    rows = database.execute("SELECT * FROM metadata ORDER BY id").fetchall()
    assert [row[:2] for row in rows] == [(1, 9), (2, 9)]
    begun, ended = (yaml.safe_load(row[2]) for row in rows)
    assert (begun["message_count"], begun["custom_data"]) == (0, {"task": "pick"})
    assert (ended["message_count"], ended["custom_data"]) == (3, {"task": "pick", "outcome": "success"})
    assert (ended["starting_time"], ended["duration"]) == (
        {"nanoseconds_since_epoch": 5},
        {"nanoseconds": 4},
    )
    assert ended["relative_file_paths"] == ["bag_0.db3"]


def test_a_bag_at_rest_has_no_log(tmp_path):
    writer = opened(tmp_path / "bag")
    writer.flush_due(0.0)
    file = tmp_path / "bag" / "bag_0.db3"
    assert (tmp_path / "bag" / "bag_0.db3-wal").stat().st_size > 0
    assert file.read_bytes()[18:20] == b"\x02\x02"  # a reader must look at the log
    writer.close()
    assert file.read_bytes()[18:20] == b"\x01\x01"
    assert {p.name for p in (tmp_path / "bag").iterdir()} == {"bag_0.db3", "metadata.yaml"}


def test_a_reader_in_the_way_of_the_close_is_named_and_nothing_is_lost(tmp_path):
    writer = opened(tmp_path / "bag")
    writer.flush_due(0.0)
    with closing(sqlite3.connect(tmp_path / "bag" / "bag_0.db3", isolation_level=None)) as other:
        other.execute("BEGIN")
        assert other.execute("SELECT COUNT(*) FROM messages").fetchone() == (3,)
        writer.write("/a", PAYLOAD, 11)
        with pytest.raises(BagError, match="another program is reading the bag"):
            writer.close()
        other.execute("COMMIT")
        assert other.execute("SELECT COUNT(*) FROM messages").fetchone() == (4,)
    assert not (tmp_path / "bag" / "metadata.yaml").exists()

"""What a message class says of its fields, against the definitions that rosbags has of the same types."""

from importlib import import_module

import pytest
from rosbags.typesys import Stores, get_types_from_msg, get_typestore

from piper_collect.bag.definitions import Definitions
from piper_collect.errors import BagError

pytest.importorskip("sensor_msgs.msg", reason="no message classes of ROS here", exc_type=ImportError)

CHARS = {"std_msgs/msg/Char"}
"""A class does not tell char from uint8."""


def classes():
    for name in sorted(get_typestore(Stores.ROS2_JAZZY).types):
        package, _, leaf = name.split("/")
        if package.endswith("_msgs") and not package.startswith(("rmw_", "service_")) and name not in CHARS:
            try:
                yield name, getattr(import_module(f"{package}.msg"), leaf)
            except (ImportError, AttributeError):
                continue


def test_the_definition_of_a_class_has_the_hash_of_its_type():
    from piper_collect.nodes.message_fields import fields_by_type

    known = get_typestore(Stores.ROS2_JAZZY)
    seen = 0
    for name, message_class in classes():
        told = get_typestore(Stores.EMPTY)
        types = {}
        for within, text in fields_by_type(name, message_class).items():
            types |= get_types_from_msg(text, within)
        told.register(types)
        assert told.hash_rihs01(name) == known.hash_rihs01(name), name
        seen += 1
    assert seen > 80


def test_types_that_are_known_stay_as_they_are():
    definitions = Definitions()
    before = definitions.definition("std_msgs/msg/Header")
    definitions.register_fields(
        {"std_msgs/msg/Header": "uint8 nothing\n", "some_msgs/msg/Two": "std_msgs/Header header\nint32 n\n"}
    )
    assert definitions.definition("std_msgs/msg/Header") == before
    assert list(definitions.fields("some_msgs/msg/Two")) == ["header", "n"]
    with pytest.raises(BagError, match="message definition cannot be read"):
        definitions.register_fields({"some_msgs/msg/Bad": "!!\n"})

"""Who else publishes what only one session may: named as soon as it is known, refused even when it is not."""

from types import SimpleNamespace

import pytest

from piper_collect.errors import SessionError
from piper_collect.nodes.company import refuse_company


def publisher(name, namespace="/"):
    return SimpleNamespace(node_name=name, node_namespace=namespace)


OWN = publisher("recorder", "/desk")
UNNAMED = publisher("_NODE_NAME_UNKNOWN_", "_NODE_NAMESPACE_UNKNOWN_")


class Graph:
    """A node that sees these publishers, one list a look, the last one for ever."""

    def __init__(self, *looks):
        self.looks = list(looks)

    def resolve_topic_name(self, topic):
        return f"/desk/{topic}"

    def get_fully_qualified_name(self):
        return "/desk/recorder"

    def get_publishers_info_by_topic(self, name):
        assert name == "/desk/recorder/status"
        return self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]


def refusal(*looks, look_s=30.0):
    with pytest.raises(SessionError) as refused:
        refuse_company(Graph(*looks), "recorder/status", look_s)
    return str(refused.value)


def test_alone_is_no_company():
    graph = Graph([], [OWN])
    refuse_company(graph, "recorder/status", look_s=0.2)
    assert graph.looks == [[OWN]]


def test_a_publisher_whose_node_is_not_known_yet_is_waited_for():
    told = refusal([OWN], [UNNAMED, OWN], [UNNAMED, OWN], [publisher("recorder", "/other"), OWN])
    assert "another session is running: /other/recorder publishes this topic" in told


def test_a_publisher_that_stays_without_a_name_is_company_all_the_same():
    told = refusal([OWN, UNNAMED], look_s=0.2)
    assert "another session is running: a node without a name yet publishes this topic" in told


def test_a_session_of_the_same_name_is_another_one():
    assert "another session is running: /desk/recorder publishes" in refusal([OWN, OWN])

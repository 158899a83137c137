"""The executor of our nodes: all that is ready runs, nothing starves, nothing that goes is waited for."""

import time

import pytest
from ros_support import DEADLINE_S, STREAM_QOS, rclpy
from std_msgs.msg import ByteMultiArray, Int32
from std_srvs.srv import Trigger

from piper_collect.nodes.executor import LeanExecutor, make_executor


@pytest.fixture(scope="module")
def context(ros_run):
    made = rclpy.Context()
    rclpy.init(context=made, signal_handler_options=rclpy.signals.SignalHandlerOptions.NO)
    yield made
    rclpy.try_shutdown(context=made)


@pytest.fixture
def node(context):
    made = rclpy.create_node("spun", context=context)
    yield made
    made.destroy_node()


@pytest.fixture
def executor(context, node):
    made = make_executor(context)
    made.add_node(node)
    yield made
    made.remove_node(node)
    made.shutdown()


def until(executor, holds):
    deadline = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < deadline, "it did not come true"
        executor.spin_once(timeout_sec=0.1)


def connected(publisher):
    return lambda: publisher.get_subscription_count() == 1


def test_it_is_the_one_that_knows_this_rclpy(executor):
    assert isinstance(executor, LeanExecutor), "rclpy has changed inside: nodes fall back on its own executor"


def test_messages_come_in_order_with_what_dds_says_of_them(executor, node):
    heard, raw = [], []
    node.create_subscription(Int32, "numbers", lambda m: heard.append(m.data), STREAM_QOS)
    node.create_subscription(Int32, "numbers", lambda m, info: raw.append((m, info)), STREAM_QOS, raw=True)
    publisher = node.create_publisher(Int32, "numbers", STREAM_QOS)
    until(executor, lambda: publisher.get_subscription_count() == 2)
    for k in range(50):
        publisher.publish(Int32(data=k))
    until(executor, lambda: len(heard) == len(raw) == 50)
    assert heard == list(range(50))
    assert [int.from_bytes(payload[4:8], "little") for payload, _info in raw] == heard
    sequence = [info["publication_sequence_number"] for _payload, info in raw]
    assert sequence == list(range(sequence[0], sequence[0] + 50))


def test_entities_come_and_go_while_it_spins(executor, node):
    ticks, heard = [], []
    made = []

    def once():
        ticks.append(1)
        node.destroy_timer(made.pop())
        made.append(node.create_subscription(Int32, "later", first, STREAM_QOS))

    def first(message):
        heard.append(message.data)
        node.destroy_subscription(made.pop())

    made.append(node.create_timer(0.001, once))
    publisher = node.create_publisher(Int32, "later", STREAM_QOS)
    until(executor, connected(publisher))
    publisher.publish(Int32(data=1))
    publisher.publish(Int32(data=2))
    until(executor, lambda: publisher.get_subscription_count() == 0)
    assert (ticks, heard, made) == ([1], [1], [])


def test_small_messages_do_not_wait_for_all_the_large_ones(executor, node):
    order = []

    def large(_message):
        order.append("large")
        time.sleep(0.006)

    node.create_subscription(ByteMultiArray, "large", large, STREAM_QOS)
    node.create_subscription(Int32, "small", lambda _message: order.append("small"), STREAM_QOS)
    slow = node.create_publisher(ByteMultiArray, "large", STREAM_QOS)
    fast = node.create_publisher(Int32, "small", STREAM_QOS)
    until(executor, connected(slow))
    until(executor, connected(fast))
    for _ in range(20):
        slow.publish(ByteMultiArray())
        for _ in range(5):
            fast.publish(Int32())
    until(executor, lambda: len(order) == 120)
    assert order[::-1].index("small") > 5, "the last of the small ones came with the last of the large ones"


def test_a_callback_that_waits_keeps_no_other_one_waiting(executor, node):
    released = rclpy.task.Future()
    ticks = []

    async def serve(_request, response):
        response.message = await released
        return response

    service = node.create_service(
        Trigger, "wait", serve, callback_group=rclpy.callback_groups.ReentrantCallbackGroup()
    )
    client = node.create_client(Trigger, "wait")
    until(executor, client.service_is_ready)
    answer = client.call_async(Trigger.Request())
    node.create_timer(0.001, lambda: ticks.append(1))
    until(executor, lambda: len(ticks) > 10)
    assert not answer.done()
    released.set_result("now")
    until(executor, answer.done)
    assert answer.result().message == "now"
    node.destroy_service(service)


def test_what_a_callback_raises_comes_out(executor, node):
    def fail():
        raise RuntimeError("of the timer")

    async def fail_later(_message):
        raise RuntimeError("of the coroutine")

    timer = node.create_timer(0.001, fail)
    with pytest.raises(RuntimeError, match="of the timer"):
        until(executor, lambda: False)
    node.destroy_timer(timer)
    node.create_subscription(Int32, "failing", fail_later, STREAM_QOS)
    publisher = node.create_publisher(Int32, "failing", STREAM_QOS)
    until(executor, connected(publisher))
    publisher.publish(Int32())
    with pytest.raises(RuntimeError, match="of the coroutine"):
        until(executor, lambda: False)

"""Runs the callbacks of one node at a fraction of what rclpy's own executor costs.

rclpy gathers all entities of a node, builds a new wait set and makes a task of every callback, and each task
wakes the executor again twice: at some hundred messages a second that takes most of a node's processor
time. Here the wait set is kept until an entity comes or goes, and what is no coroutine is called at once.
"""

from collections.abc import Callable
from contextlib import ExitStack
from inspect import iscoroutine
from time import perf_counter
from typing import Any

from rclpy._rclpy_pybind11 import InvalidHandle, WaitSet
from rclpy.context import Context
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.subscription import Subscription
from rclpy.timer import Timer
from rclpy.waitable import NumberOfEntities

SLICE_S = 0.005
"""How long the messages of one topic keep those of the others waiting, where many have piled up: fair by
time, not by number, so that large messages do not hold up small ones, of which there are more."""

EVENTS_S = 0.1
"""How often DDS's events are looked at (a publisher whose QoS does not fit, say), which are told in the log:
to wait for them too takes half of a turn, since a node has several times as many of them as of topics."""

_PARTS = (
    "_guard",
    "_sigint_gc",
    "_tasks_lock",
    "_make_handler",
    "_take_client",
    "_take_guard_condition",
    "_take_service",
    "_take_waitable",
)


class _Waited:
    """The entities of a node that are waited for, held so that none goes while it is waited for."""

    def __init__(self, nodes: list[Node], guards: list[Any], context: Context) -> None:
        self._held = ExitStack()
        self.timers: list[Timer] = self._kept([t for n in nodes for t in n.timers])
        self.subscriptions: list[Subscription] = self._kept([s for n in nodes for s in n.subscriptions])
        self.services = self._kept([s for n in nodes for s in n.services])
        self.clients = self._kept([c for n in nodes for c in n.clients])
        self.node_guards = self._kept([g for n in nodes for g in n.guards])
        self.waitables = self._kept([w for n in nodes for w in n.waitables], own_handle=True)
        self.events: list[Any] = []
        self._guards = [*self.node_guards, *guards]
        self.node_of = {id(w): n for n in nodes for w in (*n.services, *n.clients, *n.guards, *n.waitables)}
        for guard in guards:
            self._held.enter_context(guard.handle)
        self._held.enter_context(context.handle)
        more = NumberOfEntities()
        for waitable in self.waitables:
            more += waitable.get_num_entities()
        self.set = WaitSet(
            len(self.subscriptions) + more.num_subscriptions,
            len(self._guards) + more.num_guard_conditions,
            len(self.timers) + more.num_timers,
            len(self.clients) + more.num_clients,
            len(self.services) + more.num_services,
            more.num_events,
            context.handle,
        )

    def _kept(self, entities: list[Any], *, own_handle: bool = False) -> list[Any]:
        """Those of ``entities`` that are not about to go."""
        kept = []
        for entity in entities:
            try:
                self._held.enter_context(entity if own_handle else entity.handle)
            except InvalidHandle:
                continue
            kept.append(entity)
        return kept

    def wait(self, timeout_ns: int, can_run: Callable[[Any], bool], *, events: bool) -> None:
        """Wait until one of those that ``can_run`` is ready; DDS's events are among them where ``events``."""
        wait_set = self.set
        wait_set.clear_entities()
        for subscription in filter(can_run, self.subscriptions):
            wait_set.add_subscription(subscription.handle)
        for timer in filter(can_run, self.timers):
            wait_set.add_timer(timer.handle)
        for service in filter(can_run, self.services):
            wait_set.add_service(service.handle)
        for client in filter(can_run, self.clients):
            wait_set.add_client(client.handle)
        for guard in self._guards:
            wait_set.add_guard_condition(guard.handle)
        self.events = list(filter(can_run, self.waitables)) if events else []
        for waitable in self.events:
            waitable.add_to_wait_set(wait_set)
        wait_set.wait(timeout_ns)

    def ready(self, kind: str, entities: list[Any]) -> list[Any]:
        """Those of ``entities`` that became ready."""
        if not entities:
            return entities
        pointers = self.set.get_ready_entities(kind)
        return [entity for entity in entities if entity.handle.pointer in pointers] if pointers else []

    def release(self) -> None:
        """Let what was held go."""
        self._held.close()


class LeanExecutor(SingleThreadedExecutor):
    """A ``SingleThreadedExecutor`` whose ``spin_once`` runs all that is ready; to be called again and again.

    A timer, a service or a client is called once at most each time, a subscription once a message, for
    ``SLICE_S``.
    """

    def __init__(self, *, context: Context | None = None) -> None:
        self._waited: _Waited | None = None
        self._changed = True
        self._events_due_s = 0.0
        super().__init__(context=context)

    def wake(self) -> None:
        """Look at the entities again; nodes call it when one of theirs comes or goes."""
        self._changed = True
        super().wake()

    def add_node(self, node: Node) -> bool:
        """See ``Executor.add_node``."""
        self._changed = True
        return super().add_node(node)

    def remove_node(self, node: Node) -> None:
        """See ``Executor.remove_node``."""
        super().remove_node(node)
        self._release()

    def shutdown(self, timeout_sec: float | None = None) -> bool:
        """See ``Executor.shutdown``."""
        self._release()
        return super().shutdown(timeout_sec)

    def spin_once(self, timeout_sec: float | None = None) -> None:
        """Wait until something is ready, then run all that is.

        Args:
            timeout_sec: Seconds to wait at most; None for ever.

        Raises:
            Exception: What a callback raised.
        """
        self._go_on()
        waited = self._look()
        # a coroutine that is under way may keep others of its group waiting
        can_run = self.can_execute if self._tasks else _always
        timeout_ns = -1 if timeout_sec is None else int(timeout_sec * 1e9)
        events = perf_counter() >= self._events_due_s
        waited.wait(timeout_ns, can_run, events=events)
        if events:
            self._events_due_s = perf_counter() + EVENTS_S
        rare = self._ready_tasks(waited)
        timers = waited.ready("timer", waited.timers)
        subscriptions = waited.ready("subscription", waited.subscriptions)
        for timer in timers:
            self._run_timer(timer)
        for subscription in subscriptions:
            self._run_subscription(subscription)
        for task in rare:
            _run(task)

    def _look(self) -> _Waited:
        if self._waited is None or self._changed:
            self._changed = False
            self._release()
            self._waited = _Waited(self.get_nodes(), [self._guard, self._sigint_gc], self.context)
        return self._waited

    def _release(self) -> None:
        waited, self._waited = self._waited, None
        if waited is not None:
            waited.release()

    def _go_on(self) -> None:
        """Run what is under way: coroutines that wait for something."""
        if not self._tasks:
            return
        for task, _entity, _node in list(self._tasks):
            if not task.executing() and not task.done():
                _run(task)
        with self._tasks_lock:
            self._tasks = [entry for entry in self._tasks if not entry[0].done()]

    def _ready_tasks(self, waited: _Waited) -> list[Any]:
        """Tasks for what is rarely ready, made by rclpy itself."""
        ready = [(entity, self._take_service) for entity in waited.ready("service", waited.services)]
        ready += [(entity, self._take_client) for entity in waited.ready("client", waited.clients)]
        ready += [
            (g, self._take_guard_condition) for g in waited.ready("guard_condition", waited.node_guards)
        ]
        ready += [(w, self._take_waitable) for w in waited.events if w.is_ready(waited.set)]
        return [self._make_handler(entity, waited.node_of[id(entity)], take) for entity, take in ready]

    def _run_timer(self, timer: Timer) -> None:
        try:
            with timer.handle:
                if not timer.handle.is_timer_ready():
                    return  # cancelled meanwhile
                timer.handle.call_timer()
        except InvalidHandle:
            return  # destroyed meanwhile
        self._call(timer.callback)

    def _run_subscription(self, subscription: Subscription) -> None:
        """Take its messages until there is none, or its slice of time is over."""
        alone = subscription._callback_type is Subscription.CallbackType.MessageOnly
        ends_s = perf_counter() + SLICE_S
        while True:
            try:
                with subscription.handle:
                    taken = subscription.handle.take_message(subscription.msg_type, subscription.raw)
            except InvalidHandle:
                return
            if taken is None:
                return
            self._call(subscription.callback, *(taken[:1] if alone else taken))
            if perf_counter() > ends_s:
                return

    def _call(self, callback: Callable[..., Any], *args: object) -> None:
        result = callback(*args)
        if iscoroutine(result):
            self.create_task(result)


def make_executor(context: Context | None = None) -> SingleThreadedExecutor:
    """A ``LeanExecutor`` where rclpy is inside as that one needs it (Jazzy's is), else rclpy's own."""
    own = SingleThreadedExecutor(context=context)
    if not is_known(own):
        return own
    own.shutdown()
    return LeanExecutor(context=context)


def is_known(executor: SingleThreadedExecutor) -> bool:
    """Whether rclpy's executor has the parts that ``LeanExecutor`` uses."""
    return (
        isinstance(getattr(executor, "_tasks", None), list)
        and all(hasattr(executor, name) for name in _PARTS)
        and hasattr(Subscription, "CallbackType")
    )


def _always(_entity: object) -> bool:
    return True


def _run(task: Any) -> None:
    task()
    if task.exception() is not None:
        raise task.exception()

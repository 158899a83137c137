"""Bytes that are no message, sent by anybody: they end no node, and the next message is taken."""

from teleop_cell import Cell, config_of


def test_noise_ends_neither_teleoperation_nor_the_arm(rig, tally):
    from piper_collect.msg import QuestInput
    from rclpy.serialization import serialize_message
    from sensor_msgs.msg import JointState

    cell = Cell(rig, config_of())
    whole = serialize_message(QuestInput())
    noises = (
        b"",
        b"\x00",
        b"\x00\x01\x00\x00",
        whole[:20],
        b"\x00\x01\x00\x00" + b"\xff" * 64,
        whole + b"\x07" * 9,
    )
    for noise in noises:
        cell.input.publish(noise)
        rig.spin()
    cell.hear(50)
    commands = rig.publisher(JointState, "/arm/joint_command")
    for noise in noises:
        commands.publish(noise)
        rig.spin()
    rig.node.destroy_publisher(commands)
    first = len(cell.joints)
    rig.until(lambda: len(cell.joints) > first + 50, "the arm is silent")
    cell.until_said("STATE_HOLDING")
    cell.engage()
    tally("inputs tried", 2 * len(noises))

"""Fields of the messages of cameras that send H.264, which no package here brings."""

FFMPEG_PACKET = "ffmpeg_image_transport_msgs/msg/FFMPEGPacket"
COMPRESSED_VIDEO = "foxglove_msgs/msg/CompressedVideo"
VIDEO_DEFINITIONS = {
    FFMPEG_PACKET: (
        "std_msgs/Header header\nint32 width\nint32 height\nstring encoding\nuint64 pts\nuint8 flags\n"
        "bool is_bigendian\nuint8[] data\n"
    ),
    COMPRESSED_VIDEO: ("builtin_interfaces/Time timestamp\nstring frame_id\nuint8[] data\nstring format\n"),
}

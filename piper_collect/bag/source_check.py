"""Whether what is published can be read as sources and cameras are configured, before it is recorded."""

from piper_collect.bag.definitions import Definitions, full_type_name
from piper_collect.bag.fields import FieldReader
from piper_collect.bag.pictures import VIDEO_TYPES, camera_frame
from piper_collect.config.names import depth_topic, image_topic, resolve_topic
from piper_collect.config.schema import SessionConfig, SourceSettings
from piper_collect.errors import ConfigError, ImageError
from piper_collect.imaging.depth import to_millimetres
from piper_collect.imaging.frames import H264, to_video_frame
from piper_collect.imaging.h264 import StreamParser

IMAGE_TYPES = ("sensor_msgs/msg/Image", "sensor_msgs/msg/CompressedImage", *VIDEO_TYPES)


class SourceCheck:
    """Checks topics against the sources and cameras that they feed, as an export will read them.

    Args:
        config: The session.
        definitions: The message types that are known.
    """

    def __init__(self, config: SessionConfig, definitions: Definitions) -> None:
        self._arm = config.arm
        self._definitions = definitions
        self._sources: dict[str, dict[str, SourceSettings]] = {}
        for key, settings in config.sources.items():
            topic = resolve_topic(settings.topic, config.session.namespace)
            self._sources.setdefault(topic, {})[key] = settings
        self._cameras = {
            resolve_topic(image_topic(name, camera), config.session.namespace): name
            for name, camera in config.cameras.items()
        }

        self._depths = {
            resolve_topic(depth_topic(camera), config.session.namespace): name
            for name, camera in config.cameras.items()
            if depth_topic(camera)
        }

    @property
    def cameras(self) -> tuple[str, ...]:
        """Topics of the cameras' images."""
        return tuple(self._cameras)

    def feeds(self, topic: str) -> bool:
        """Whether a source or a camera, or its depth, is read from ``topic``."""
        return topic in self._sources or topic in self._cameras or topic in self._depths

    def check_type(self, topic: str, type_name: str) -> None:
        """Follow each source's field through the type of its topic; a camera's topic must be of images.

        Raises:
            ConfigError: The type has no such field, which names the source and the nearest field; or it is
                no image.
            BagError: The type is unknown.
        """
        if topic in self._cameras and full_type_name(type_name) not in IMAGE_TYPES:
            raise ConfigError(
                "not a topic of images",
                where=f"cameras.{self._cameras[topic]}.topic (topic {topic})",
                expected=" or ".join(IMAGE_TYPES),
                got=type_name,
            )
        if topic in self._depths and full_type_name(type_name) != IMAGE_TYPES[0]:
            raise ConfigError(
                "not a topic of depth images",
                where=f"cameras.{self._depths[topic]} (topic {topic})",
                expected=IMAGE_TYPES[0],
                got=type_name,
            )
        for key, settings in self._sources.get(topic, {}).items():
            kind = type_name
            for part in settings.field.split("."):
                fields = self._definitions.fields(kind)
                if part not in fields:
                    raise ConfigError(
                        f"{kind} has no such field",
                        where=f"sources.{key}.field (topic {topic})",
                        got=part,
                        valid=fields,
                    )
                kind = fields[part]

    def check_message(self, topic: str, type_name: str, payload: bytes) -> None:
        """Read one message as the sources of its topic are configured; decode it if it is a camera's.

        Args:
            topic: Resolved name.
            type_name: Its type, which passed ``check_type``.
            payload: The serialized message.

        Raises:
            PiperCollectError: It cannot be read so: a joint that it does not name, another frame than the
                arm's base, a unit that cannot be right, an encoding that does not become video.
        """
        message = self._definitions.codec(type_name).decode(payload)
        for key, settings in self._sources.get(topic, {}).items():
            reader = FieldReader(key, topic, settings, self._arm)
            reader.add(message)
            reader.values()
        if topic in self._cameras or topic in self._depths:
            self._check_picture(topic, message)

    def _check_picture(self, topic: str, message: object) -> None:
        try:
            frame = camera_frame(topic, message, 0)
            if topic in self._depths:
                to_millimetres(frame)
            elif frame.encoding == H264:
                StreamParser().add(frame.payload)
            else:
                to_video_frame(frame)
        except ImageError as err:
            where = f"camera {self._cameras.get(topic) or self._depths[topic]} (topic {topic})"
            raise ImageError(
                err.what, where=where, expected=err.expected, got=err.got, valid=err.valid, hint=err.hint
            ) from err

"""Judges pictures that the rows of a LeRobot v3.0 dataset hold: depth of 16 bits, and others."""

from piper_collect.core.findings import Findings
from piper_collect.core.image_stats import ImageHistogram, sample_rows, thin
from piper_collect.dataset.pictures import picture_size
from piper_collect.dataset.v3.reader import LeRobotV3Reader
from piper_collect.errors import DatasetError, ImageError
from piper_collect.imaging.depth import depth_of_png


def check_images(reader: LeRobotV3Reader, index: int, key: str, findings: Findings) -> ImageHistogram | None:
    """Decode every picture of an episode that its rows hold as the feature ``key``.

    Returns:
        The distances in those depth images that LeRobot looks at; None of other pictures, or where one of
        them cannot be read.
    """
    height, width, channels = (*reader.info["features"][key]["shape"], 0, 0, 0)[:3]
    looked, histogram = frozenset(sample_rows(int(reader.episodes[index]["length"])).tolist()), None
    if channels == 1:
        histogram = ImageHistogram.empty_depth()
    row = 0
    try:
        for row, encoded in enumerate(reader.images(index, key)):
            if histogram is None:
                size = picture_size(encoded)
            else:
                depth = depth_of_png(encoded)
                size = (depth.shape[0], depth.shape[1])
            if size != (height, width):
                raise DatasetError("a picture has another size", expected=(height, width), got=size)
            if histogram is not None and row in looked:
                histogram = histogram.added(thin(depth[:, :, None]))
    except (DatasetError, ImageError) as err:
        findings.add("error", "image", f"episode {index}, {key}, row {row}", str(err))
        return None
    return histogram

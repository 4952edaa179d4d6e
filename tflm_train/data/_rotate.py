"""Rotate images, the domain shift of the PRIOT paper."""

import numpy as np


def rotate(images, degrees):
    """Images turned counter-clockwise about their centre, bilinear, corners black.

    Args:
      images: uint8 [n, height, width, channels] or [n, height, width].
      degrees: angle.

    Returns:
      uint8 of the same shape.

    Example:
      >>> import numpy as np
      >>> rotate(np.eye(3, dtype=np.uint8)[None], 90)[0].tolist()
      [[0, 0, 1], [0, 1, 0], [1, 0, 0]]
    """
    from PIL import Image

    images = np.asarray(images)
    if images.dtype != np.uint8 or images.ndim not in (3, 4):
        raise ValueError(
            f"Expected uint8 [n, height, width(, channels)], got {images.dtype}{images.shape}"
        )
    planes = images[..., None] if images.ndim == 3 else images
    out = np.empty_like(planes)
    for i, image in enumerate(planes):
        for c in range(planes.shape[-1]):
            turned = Image.fromarray(image[..., c]).rotate(degrees, Image.BILINEAR)
            out[i, ..., c] = np.asarray(turned)
    return out.reshape(images.shape)

"""Every way a model comes in, and what is said when it cannot."""

import json

import h5py
import numpy as np
import pytest

from converters import convert
from converters.errors import ConversionError, TflmTrainError


@pytest.fixture(scope="module")
def saved(small_cnn, tmp_path_factory):
    """`small_cnn` in every format, compiled with string losses as Keras 2 users do."""
    model, _ = small_cnn
    folder = tmp_path_factory.mktemp("models")
    model.compile(loss="mse", metrics=["mse"])
    model.save(folder / "m.keras")
    model.save(folder / "m.h5")
    model.export(folder / "exported", verbose=False)
    return folder


@pytest.mark.parametrize("name", ["m.keras", "m.h5"])
def test_files_give_the_bytes_of_the_object(saved, small_cnn, small_int8, name):
    assert convert(saved / name, calibration=small_cnn[1]) == small_int8.raw
    assert convert(str(saved / name), calibration=small_cnn[1]) == small_int8.raw


def test_a_saved_model_folder_gives_the_same_weights(saved, small_cnn, small_int8, converted):
    result = converted(saved / "exported", calibration=small_cnn[1])
    assert result.ops == small_int8.ops
    ours = [
        result.model.buffers[result.graph.tensors[op.inputs[1]].buffer].data
        for op in (result.graph.operators[0], result.graph.operators[3], result.graph.operators[4])
    ]
    theirs = [
        small_int8.values(n).tobytes() for n in ("conv/kernel", "hidden/kernel", "head/kernel")
    ]
    assert [bytes(bytearray(d)) for d in ours] == theirs


def _keras2_h5(path, groups):
    """A Keras-2 style file: DepthwiseConv2D with `groups` in its configuration."""
    from converters.quiet import import_keras

    keras = import_keras()
    model = keras.Sequential(
        [
            keras.Input((6, 6, 2)),
            keras.layers.DepthwiseConv2D(3, name="dw", bias_initializer="normal"),
        ]
    )
    model.save(path)
    with h5py.File(path, "r+") as file:
        config = json.loads(file.attrs["model_config"])
        for layer in config["config"]["layers"]:
            if layer["class_name"] == "DepthwiseConv2D":
                layer["config"]["groups"] = groups
        file.attrs["model_config"] = json.dumps(config)
    return model


def test_a_depthwise_layer_of_keras_2_with_groups_loads(tmp_path, converted):
    model = _keras2_h5(tmp_path / "k2.h5", 1)
    samples = np.random.default_rng(1).random((4, 6, 6, 2))
    result = converted(tmp_path / "k2.h5", calibration=samples)
    assert result.ops == ["DEPTHWISE_CONV_2D"]
    kernel = model.get_weights()[0]
    real = result.values("dw/kernel") * result.scales("dw/kernel")
    np.testing.assert_allclose(real[0], kernel[..., 0], atol=result.scales("dw/kernel").max() / 2)


def test_a_model_without_input_shape_is_told_to_add_one(keras):
    with pytest.raises(ConversionError, match=r"no input shape; add Input\("):
        convert(keras.Sequential([keras.layers.Dense(2)]))


def test_unknown_dimensions_are_refused_with_the_input_and_shape(keras):
    model = keras.Sequential([keras.Input((None, 4)), keras.layers.Dense(2)])
    with pytest.raises(ConversionError, match=r"fixed dimensions.*\(None, None, 4\)"):
        convert(model)


def test_a_mixed_precision_model_converts_with_the_same_weights(keras, converted):
    layer = keras.layers.Dense(3, name="d", dtype="mixed_float16", bias_initializer="normal")
    model = keras.Sequential([keras.Input((4,)), layer])
    result = converted(model, calibration=np.random.default_rng(0).random((8, 4)))
    real = result.values("d/kernel") * result.scales("d/kernel")
    np.testing.assert_allclose(
        real.T, layer.get_weights()[0], atol=result.scales("d/kernel")[0] / 2 * 1.0001
    )
    assert layer.compute_dtype == "float16"


def test_layers_keep_their_names_when_conversion_fails(keras):
    model = keras.Sequential(
        [keras.Input((4,), name="x"), keras.layers.Dense(2, activation="gelu", name="g")]
    )
    with pytest.raises(ConversionError):
        convert(model)
    assert [layer.name for layer in model.layers] == ["g"]


def test_a_file_with_python_code_names_its_layers(keras, tmp_path):
    model = keras.Sequential(
        [
            keras.Input((4,)),
            keras.layers.Lambda(lambda x: x * 2, name="twice"),
            keras.layers.Dense(2),
        ]
    )
    model.save(tmp_path / "l.keras")
    with pytest.raises(ConversionError, match=r"layer 'twice' \(Lambda\)"):
        convert(tmp_path / "l.keras")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("none.h5", None, "no such file"),
        ("m.onnx", b"x", "Expected a path to"),
        ("m.tflite", b"x", "already converted"),
        ("empty.h5", b"", "cannot load"),
        ("noise.keras", b"PK\x03\x04 not a zip", "cannot load"),
        ("text.h5", b"hello", "cannot load"),
    ],
)
def test_files_that_are_no_model_are_refused_in_one_line(tmp_path, name, content, message):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(ConversionError, match=message) as caught:
        convert(tmp_path / name)
    assert "\n" not in str(caught.value)


def test_a_folder_without_a_saved_model_is_refused(tmp_path):
    with pytest.raises(ConversionError, match="without saved_model.pb"):
        convert(tmp_path)


def test_what_is_neither_model_nor_path_is_refused():
    with pytest.raises(TflmTrainError, match="got int"):
        convert(3)


@pytest.mark.parametrize("suffix", [".keras", ".h5"])
def test_an_initializer_of_a_later_keras_does_not_matter(tmp_path, suffix):
    import keras

    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, name="d")])
    plain, later = tmp_path / f"plain{suffix}", tmp_path / f"later{suffix}"
    model.save(plain)
    _edit_config(
        plain, later, '"config": {"seed": null', '"config": {"of_the_future": 1, "seed": null'
    )
    with pytest.raises((TypeError, ValueError), match="of_the_future"):
        keras.models.load_model(later, compile=False)
    x = np.ones((4, 4), np.float32)
    assert convert(str(later), calibration=x) == convert(str(plain), calibration=x)


def _edit_config(source, target, old, new):
    import shutil
    import zipfile

    if source.suffix == ".h5":
        import h5py

        shutil.copyfile(source, target)
        with h5py.File(target, "r+") as file:
            config = file.attrs["model_config"]
            assert old in config
            file.attrs["model_config"] = config.replace(old, new)
        return
    with zipfile.ZipFile(source) as read, zipfile.ZipFile(target, "w") as write:
        for name in read.namelist():
            data = read.read(name)
            if name == "config.json":
                assert old.encode() in data
                data = data.replace(old.encode(), new.encode())
            write.writestr(name, data)

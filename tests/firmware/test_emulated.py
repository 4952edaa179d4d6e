"""Firmware on emulated machines against the host: the same bits at every step."""

import zlib

import numpy as np
import pytest
from chains import (
    host_crc,
    host_net,
    host_step,
    odd_net,
    random_chain,
    require_target,
    samples,
    tiny_cnn_s2,
)

import tflm_train
from converters.c_source_chain_code import ChainSource
from converters.c_source_graph import GraphSource
from converters.flatbuffer import read_model
from tflm_train._firmware.build import build_image, write_sources
from tflm_train._firmware.emulators import Emulator
from tflm_train._firmware.protocol import ProtocolError
from tflm_train._firmware.targets import find_target
from tflm_train._firmware.zo_settings import zo_settings
from tflm_train.zo import ZoTrainer, qscheduler

TARGETS = ["rp2040", "cortex-m55"]
STEPS = 200
CHAINS = {
    "priot": dict(bias=True),
    "priot_pruned_layer": dict(bias=True, pruned=3),
    "priot_s": dict(method="priot-s", storage="bitmask", threshold=0),
    "priot_s_indices": dict(method="priot-s", storage="index_list", threshold=0),
    "niti": dict(method="niti", update="pseudo_stochastic"),
}


def chain_image(build_folder, target, name, chain):
    kernels = find_target(target).kernels
    folder = build_folder / f"{name}_{kernels}_image"
    source = ChainSource(chain, kernels=kernels)
    write_sources(source.files(), folder)
    return build_image(folder, target), source


def compare(client, chain, steps):
    net = host_net(chain)
    x, y = samples(chain, steps, seed=5)
    for step, (sample, label) in enumerate(zip(x, y, strict=True)):
        want = host_step(net, sample, label)
        _, _, logits = client.train(sample[None], [label])
        np.testing.assert_array_equal(logits, want, f"step {step}")
        if step % 10 == 9:
            assert client.crc() == host_crc(chain, net), f"step {step}"
    assert client.crc() == host_crc(chain, net)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", CHAINS)
def test_200_training_steps_equal_the_host(build_folder, target, name):
    require_target(target)
    chain = random_chain(odd_net(), 3, **CHAINS[name])
    image, _ = chain_image(build_folder, target, name, chain)
    with Emulator(image.path, target) as emulator:
        compare(emulator.client, chain, STEPS)


@pytest.fixture(scope="session")
def small_int8():
    """A small convolutional model, its last dense layer and its bias trainable by zo."""
    keras = pytest.importorskip("keras")
    keras.utils.set_random_seed(1)
    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            layers.Conv2D(4, 3, strides=2, activation="relu", padding="same"),
            layers.Flatten(),
            layers.Dense(12, activation="relu"),
            layers.Dense(5),
        ]
    )
    x = np.random.default_rng(2).random((64, 8, 8, 1)).astype(np.float32)
    return tflm_train.convert(model, calibration=x, trainable="last:2"), x


@pytest.mark.parametrize("target", TARGETS)
def test_200_zeroth_order_steps_equal_the_host_while_q_grows(build_folder, small_int8, target):
    require_target(target)
    raw, x = small_int8
    interpreter = tflm_train.Interpreter(raw)
    schedule = dict(q_init=1, q_max=8, patience=1, tau=0)
    options = dict(lr=0.5, momentum=0.9, seed=3, lr_per_q="sqrt")
    zo = zo_settings(interpreter, batch=4, scheduler=schedule, **options)
    kernels = find_target(target).kernels
    source = GraphSource(
        read_model(raw), zo=zo, logits=interpreter.logits_spec.index, kernels=kernels
    )
    folder = build_folder / f"zo_{target}"
    write_sources(source.files(), folder)
    image = build_image(folder, target)
    trainer = ZoTrainer(interpreter, scheduler=qscheduler(**schedule), **options)
    codes = interpreter.quantize(x)[0].reshape(len(x), -1)
    features = trainer.prepare(x)
    labels = (np.arange(len(x)) % 5).astype(np.int32)
    with Emulator(image.path, target) as emulator:
        client = emulator.client
        for step in range(STEPS):
            chosen = np.arange(4 * step, 4 * step + 4) % len(x)
            logits = interpreter.run_suffix([f[chosen[:1]] for f in features])[0]
            np.testing.assert_array_equal(client.infer(codes[chosen[0]]), logits)
            trainer.train_batch([f[chosen] for f in features], labels[chosen])
            result, loss, _ = client.train(codes[chosen], labels[chosen])
            assert result == 1
            if step % 20 == 19:
                # The same value again and again: no improvement, so q grows.
                trainer.on_epoch_end({"validation_loss": 1.0})
                assert client.end_epoch(1) == trainer.q
                assert client.crc() == _crc(interpreter), f"step {step}"
        assert trainer.q == 8
        assert client.crc() == _crc(interpreter)


def _crc(interpreter):
    crc = 0
    for item in interpreter.trainable:
        crc = zlib.crc32(interpreter.suffix.read(item.tensor).tobytes(), crc)
    return crc


@pytest.mark.parametrize("target", TARGETS)
def test_state_travels_over_the_wire_and_damage_is_refused(build_folder, target):
    require_target(target)
    chain = random_chain(odd_net(), 3, **CHAINS["priot"])
    image, source = chain_image(build_folder, target, "priot", chain)
    x, y = samples(chain, 6)
    with Emulator(image.path, target) as emulator:
        client = emulator.client
        info = client.info()
        assert (info.inputs, info.outputs, info.trains) == (220, 7, True)
        assert info.state_bytes == source.state_bytes
        for sample, label in zip(x[:3], y[:3], strict=True):
            client.train(sample[None], [label])
        state = client.get_state()
        for sample, label in zip(x[3:], y[3:], strict=True):
            client.train(sample[None], [label])
        crc = client.crc()
        client.reset()
        client.set_state(state)
        for sample, label in zip(x[3:], y[3:], strict=True):
            client.train(sample[None], [label])
        assert client.crc() == crc
        with pytest.raises(ProtocolError, match="refusal"):
            client.set_state(bytes([state[0] ^ 1]) + state[1:])
        with pytest.raises(ProtocolError, match="a wrong length"):
            client.request("P", b"\0")
        with pytest.raises(ProtocolError, match="an unknown request"):
            client.request("?")
        assert client.crc() == crc
        assert client.info().stack_used < image.stack
        client.quit()
        assert emulator.wait() == 0


@pytest.mark.nightly
@pytest.mark.parametrize("target", TARGETS)
def test_200_steps_of_the_reference_net_equal_the_host(build_folder, target):
    require_target(target)
    chain = random_chain(tiny_cnn_s2(), 6)
    image, _ = chain_image(build_folder, target, "tiny_cnn_s2", chain)
    with Emulator(image.path, target, timeout=600) as emulator:
        compare(emulator.client, chain, STEPS)


def test_the_priot_runtime_fits_into_24_kb_of_code_on_cortex_m0plus(build_folder):
    require_target("rp2040")
    image, source = chain_image(
        build_folder, "rp2040", "tiny_cnn_s2", random_chain(tiny_cnn_s2(), 6)
    )
    assert image.text < 24 << 10
    # The plan of arena and state is what the linker places, with the application's own buffers.
    assert source.arena_bytes + source.state_bytes <= image.bss

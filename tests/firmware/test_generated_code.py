"""Generated code, compiled for this machine, against the host trainers and engine."""

import numpy as np
import pytest
from chains import (
    host_crc,
    host_net,
    host_step,
    odd_net,
    random_chain,
    samples,
    tiny_cnn,
    tiny_cnn_s2,
)

from converters.c_source_chain_code import ChainSource
from converters.errors import UnsupportedModelError
from tflm_train._firmware.build import HostModel, write_sources

CASES = {
    "priot": dict(specs=odd_net, bias=True),
    "priot_positive_threshold": dict(specs=odd_net, threshold=3),
    "priot_paper": dict(specs=odd_net, masked_backward=False),
    "priot_stochastic": dict(
        specs=odd_net, forward="stochastic", backward="stochastic", update="stochastic", seed=9
    ),
    "priot_half_up": dict(specs=odd_net, forward="half_up", backward="half_away", update="half_up"),
    "priot_pseudo": dict(specs=odd_net, update="pseudo_stochastic"),
    "priot_s_bitmask": dict(specs=odd_net, method="priot-s", storage="bitmask", threshold=0),
    "priot_s_indices": dict(specs=odd_net, method="priot-s", storage="index_list", threshold=0),
    "priot_pruned_layer": dict(specs=odd_net, bias=True, pruned=3),
    "niti": dict(specs=odd_net, method="niti"),
    "niti_pseudo": dict(specs=odd_net, method="niti", update="pseudo_stochastic"),
    "tiny_cnn": dict(specs=tiny_cnn),
    "tiny_cnn_s2": dict(specs=tiny_cnn_s2),
}


def build(build_folder, name, chain, kernels_of="generic"):
    kernels = {"generic": "portable", "rp2040": "armv6m"}[kernels_of]
    folder = build_folder / f"{name}_{kernels}"
    write_sources(ChainSource(chain, kernels=kernels).files(), folder)
    return HostModel(folder, kernels_of=kernels_of)


@pytest.mark.parametrize("kernels_of", ["generic", "rp2040"])
@pytest.mark.parametrize("name", CASES)
def test_generated_training_steps_equal_the_host_trainer(build_folder, name, kernels_of):
    options = dict(CASES[name])
    chain = random_chain(options.pop("specs")(), 3, **options)
    model, net = build(build_folder, name, chain, kernels_of), host_net(chain)
    x, y = samples(chain, 30, seed=4)
    for sample, label in zip(x, y, strict=True):
        want = host_step(net, sample, label)
        _, _, logits = model.train(sample[None], [label])
        np.testing.assert_array_equal(logits, want)
        assert model.crc() == host_crc(chain, net)


def test_decay_makes_updates_smaller_as_the_host_does(build_folder):
    chain = random_chain(odd_net(), 3)
    model, net = build(build_folder, "priot", chain), host_net(chain)
    for i, layer in enumerate(chain.layers):
        if layer.weights is not None:
            net.set_shifts(i, -9, layer.forward_shift, 7, layer.update_shift + 2)
    model.set_decay(2)
    x, y = samples(chain, 10)
    for sample, label in zip(x, y, strict=True):
        host_step(net, sample, label)
        model.train(sample[None], [label])
    assert model.crc() == host_crc(chain, net)


def test_a_state_that_was_read_continues_a_run_bit_for_bit(build_folder):
    chain = random_chain(odd_net(), 3)
    model = build(build_folder, "priot", chain)
    x, y = samples(chain, 20)
    for sample, label in zip(x[:10], y[:10], strict=True):
        model.train(sample[None], [label])
    state = model.get_state()
    for sample, label in zip(x[10:], y[10:], strict=True):
        model.train(sample[None], [label])
    crc = model.crc()
    model.reset()
    assert model.crc() != crc
    model.set_state(state)
    for sample, label in zip(x[10:], y[10:], strict=True):
        model.train(sample[None], [label])
    assert model.crc() == crc


def test_a_state_of_another_model_is_refused(build_folder):
    first = build(build_folder, "priot", random_chain(odd_net(), 3))
    other = build(build_folder, "priot_other", random_chain(odd_net(), 4))
    before = first.crc()
    with pytest.raises(ValueError, match="Expected a state of this model"):
        first.set_state(other.get_state())
    assert first.crc() == before


def test_labels_out_of_range_are_refused_and_change_nothing(build_folder):
    chain = random_chain(odd_net(), 3)
    model = build(build_folder, "priot", chain)
    x, _ = samples(chain, 1)
    before = model.get_state()
    assert model.train(x, [-1])[0] == -1
    assert model.train(x, [chain.layers[-1].out_size])[0] == -1
    assert model.get_state() == before


def test_an_image_without_training_infers_with_the_trained_scores(build_folder):
    chain = random_chain(odd_net(), 3)
    folder = build_folder / "infer_only"
    source = ChainSource(chain, kernels="portable", trains=False)
    write_sources(source.files(), folder)
    assert source.arena_bytes < ChainSource(chain, kernels="portable").arena_bytes
    model, net = HostModel(folder), host_net(chain)
    x, _ = samples(chain, 5)
    np.testing.assert_array_equal([model.infer(s) for s in x], net.predict(x))


def test_generated_code_has_no_heap_no_constructors_and_no_float(build_folder):
    folder = build_folder / "priot_portable"
    build(build_folder, "priot", random_chain(odd_net(), 3))
    text = (folder / "model.cc").read_text()
    for word in ("new ", "malloc", "std::vector", "float", "double"):
        assert word not in text, word


def test_a_branching_chain_is_refused_with_the_sizes():
    chain = random_chain(odd_net(), 3)
    chain.layers[-1].sizes[0] += 1
    with pytest.raises(UnsupportedModelError, match="only sequential models"):
        ChainSource(chain, kernels="portable")

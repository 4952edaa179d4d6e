"""The chain that firmware trains, from a model converted for PRIOT, PRIOT-S or NITI."""

from converters.c_source_chain import Chain, ChainLayer
from converters.priot_format import STORAGES, choose_storage
from converters.priot_read import read_net


def chain_of_model(raw, *, mu=None, seed=0):
    """The `Chain` of a converted model.

    Args:
      raw: bytes or a path.
      mu: the largest entry of an update is about 2^mu; None: the model's.
      seed: of stochastic rounding.

    Raises:
      UnsupportedModelError: a model of another method.
    """
    net, info = read_net(raw)
    options = net.options
    mu = int(options.get("mu", 2) if mu is None else mu)
    return Chain(
        layers=[_layer(layer, mu) for layer in net.layers],
        method=info.method,
        forward=options["rounding_forward"],
        backward=options["rounding_backward"],
        update=options["rounding_update"],
        masked_backward=bool(options["masked_backward"]),
        input_exponent=net.input_exponent,
        seed=seed,
    )


def _layer(layer, mu):
    if not layer.has_weights:
        return ChainLayer(layer.kind, [int(v) for v in layer.sizes.values()])
    storage = "dense"
    if layer.scores is not None and layer.scored is not None:
        storage = STORAGES[choose_storage(layer.scored, layer.rows, layer.row_size)[0]]
    return ChainLayer(
        layer.kind,
        [int(v) for v in layer.sizes.values()],
        layer.relu,
        weights=layer.weights,
        bias=layer.bias,
        scores=layer.scores,
        scored=None if storage == "dense" else layer.scored,
        threshold=layer.threshold,
        weight_exponent=layer.exponent,
        forward_shift=layer.forward_shift,
        backward_shift=layer.backward_shift,
        update_shift=layer.gradient_bits - mu,
        storage=storage,
    )

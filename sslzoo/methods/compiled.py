"""A function as a model, so that `predict_on_batch` and `predict` compile it, once, on every backend."""

import keras


class Compiled(keras.Model):
    """Calls a function of tensors.

    Args:
        owner: layer or model whose variables the function reads.
        function: callable, tensors -> tensors, batch in front.
    """

    def __init__(self, owner, function):
        super().__init__(name="compiled", dtype="float32")
        self.owner = owner
        self.function = function
        self.built = True

    def call(self, inputs):
        return self.function(inputs)

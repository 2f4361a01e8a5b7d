"""What a recipe asks its run for, made from the settings in force: views, networks and the optimizer."""

import keras

from sslzoo import augment, networks, optimizers
from sslzoo.errors import InvalidInputError, choose
from sslzoo.networks.backbones import widening
from sslzoo.networks.encoders import ANY_SIZE, takes_any_size
from sslzoo.training.annealing import TimedCosine
from sslzoo.views import Views, policy


class Builders:
    """Made from `settings`, `image_shape`, `seed` and `beginning` of the run that inherits it."""

    schedule = None  # `TimedCosine` of the optimizer, where the rate falls over --max-minutes

    def options(self, *names: str) -> dict:
        """The settings of these names, to pass on to a method."""
        return {name: self.settings[name] for name in names}

    def views(
        self,
        num_views: int | None = None,
        size: int | tuple[int, int] | None = None,
        seed: int | None = None,
        **changes,
    ) -> Views:
        """The `Views` of this run: its policy and number of views.

        Args:
            num_views: int, in place of the setting (small crops beside the large ones).
            size: of the views, in place of the setting "view_size" or, without one, of the images' own.
            seed: int, in place of the run's.
            **changes: to steps of the policy, over the setting "policy_changes".
        """
        changes = {"flip": self.settings["flip"], **self.settings["policy_changes"], **changes}
        steps = policy(self.settings["policy"], **changes)
        whole, small = self.image_shape[:2], self.settings["view_size"]
        count, eval_size = num_views or self.settings["num_views"], whole if small and size is None else None
        seed = self.seed if seed is None else seed
        options = {"seed": seed, "eval_size": eval_size, "value_range": self.examples.value_range}
        return Views(steps, count, size=size or small or whole, **options)

    def local_views(self) -> Views | None:
        """The smaller views of settings "local_views" (how many), "local_scale" and "local_size"; None for 0."""
        s = self.settings
        if not s["local_views"]:
            return None
        # By the seed of the global views they would fall on the same places, and be flipped and colored alike.
        return self.views(s["local_views"], s.get("local_size"), self.seed + 1, crop={"scale": s["local_scale"]})

    @property
    def input_shape(self) -> tuple[int | None, ...]:
        """What an encoder takes: the shape of an image; any side where it is trained on smaller views than it is used
        on.

        Raises:
            InvalidInputError: there, a network that takes one size.
        """
        size, network = self.settings["view_size"], self.settings["network"]
        if not size:
            return self.image_shape
        if not takes_any_size(network):
            raise InvalidInputError(
                "view_size (--store-size) needs a network of images of any side: "
                f"{', '.join(sorted(ANY_SIZE))}, or one from elsewhere (keras:...). "
                f"Received: view_size={size}, network={network!r}"
            )
        return None, None, self.image_shape[-1]

    def encoder(self, posterior: bool = False, **size) -> keras.Model:
        """The encoder of this run: setting "network", a representation of "latent_dim" numbers; or that of --init.

        Args:
            posterior: bool, whether it gives mean and log-variance.
            **size: of a network that comes in several, as `networks.encoder` takes it (width=16).

        Raises:
            InvalidInputError: a posterior beside the setting "view_size": a decoder rebuilds images of one size.
        """
        if posterior and self.settings["view_size"]:
            raise InvalidInputError(
                "view_size (--store-size) is for methods without a decoder, which rebuilds images of one size. "
                f"Received: view_size={self.settings['view_size']}"
            )
        if self.beginning:
            return self.beginning.encoder(self, posterior)
        s = self.settings
        options = {"seed": self.seed, **size, **s["network_options"], **self._elsewhere()}
        return networks.encoder(s["network"], self.input_shape, s["latent_dim"], posterior, **options)

    def _elsewhere(self):
        """What a network from elsewhere gets of this run: the range of its views, and whether it is trained."""
        name, options = self.settings["network"], {}
        if ":" in str(name):
            for step in self.views().steps:
                if isinstance(step, augment.Normalize):
                    options["normalized"] = step.mean, step.std
        elif self.settings["pretrained"]:
            raise InvalidInputError(f"--pretrained is for networks from elsewhere. Received: network={name!r}")
        if self.settings["pretrained"]:
            options["weights"] = "imagenet"
            how = widening(self.image_shape[-1])
            remark = f"Training began with the supervised weights of {name}." + (f" {how}" if how else "")
            self.examples.remarks.append(remark)
            print(remark)
        return options

    def decoder(self) -> keras.Model:
        """The decoder that belongs to the encoder of this run."""
        if self.beginning:
            return self.beginning.decoder()
        return networks.decoder(
            self.settings["network"], self.image_shape, self.settings["latent_dim"], seed=self.seed + 1
        )

    def projector(self, encoder: keras.Model) -> keras.Model | None:
        """The projection head of this run: setting "head", its widths, with "head_options"; None without one."""
        if not self.settings.get("head"):
            return None
        options = self.settings.get("head_options", {})
        for option in options:
            choose("option of a head", option, ("batch_norm", "output_batch_norm", "activation", "output_bias"))
        head = networks.projector(encoder.output_shape[-1], self.settings["head"], seed=self.seed + 1, **options)
        self.fill_head(head, encoder)
        return head

    def fill_head(self, head: keras.Model, encoder: keras.Model) -> None:
        """With --init, gives a new head the weights of the trained one, if it was published and has this one's shape.

        Args:
            head: features of the encoder (N, L) -> what the loss sees; its layers are changed in place.
            encoder: what `encoder` gave.
        """
        if self.beginning:
            self.beginning.fill_projector(head, encoder)

    def predictor(self, below: keras.Model) -> keras.Model:
        """The prediction head on top of the projector, or of an encoder without one: setting "predictor", its width."""
        return networks.predictor(below.output_shape[-1], self.settings["predictor"], seed=self.seed + 2)

    def optimizer(self) -> keras.optimizers.Optimizer:
        """The setting "optimizer", with "weight_decay" as L2 (Muon's is decoupled); warm-up and cosine decay, or a rate
        that is constant, but for what `fit_arguments` does to it when accuracy stalls ("plateau")."""
        s, rate = self.settings, self.settings["learning_rate"]
        accumulated = self.arguments.accumulate or 1
        if s["schedule"] == "cosine":
            # Keras asks schedules for the rate of a batch, not of a step that several batches make.
            warmup = s["warmup_steps"] * accumulated
            if s["warmup_epochs"] is not None:
                warmup = round(s["warmup_epochs"] * self.steps_per_epoch)
                if warmup > self.steps // 10:
                    print(f"The rate rises over {self.steps // 10:,} steps, a tenth of all, not {warmup:,}.")
            if self.is_timed:
                rate = self.schedule = TimedCosine(rate, self.steps, warmup)
            else:
                rate = optimizers.warmup_cosine(rate, self.steps, min(warmup, self.steps // 10))
        several, decay = (accumulated if accumulated > 1 else None), s["weight_decay"]
        kind = s["optimizer"]
        common = {"momentum": 0.9, "weight_decay": decay, "gradient_accumulation_steps": several}
        if kind == "adam":
            adam = {"epsilon": s["adam_epsilon"], "gradient_accumulation_steps": several}
            optimizer = optimizers.L2Adam(rate, decay, **adam) if decay else keras.optimizers.Adam(rate, **adam)
        elif kind == "muon":
            half = "bfloat16" if self.arguments.precision == "mixed_bfloat16" else "float32"
            muon = {"iteration_dtype": half, "gradient_accumulation_steps": several}
            optimizer = optimizers.Muon(rate, decay, **muon)
        elif kind == "sgd":
            optimizer = optimizers.L2SGD(rate, **common)
        else:
            optimizer = optimizers.LARS(rate, trust_coefficient=0.02, clip=True, **common)
        return self.schedule.of(optimizer) if self.schedule else optimizer

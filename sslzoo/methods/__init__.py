"""The methods, one file each. `METHODS` maps the name used by recipes, weights and tests to the class."""

from sslzoo.methods.cr_vae import CRVAE
from sslzoo.methods.simvae import SimVAE
from sslzoo.methods.vae import VAE, BetaVAE

METHODS = {"vae": VAE, "beta-vae": BetaVAE, "cr-vae": CRVAE, "simvae": SimVAE}

__all__ = ["CRVAE", "METHODS", "VAE", "BetaVAE", "SimVAE"]

"""Imported first by all that imports Keras: a backend that is not installed is then named in one sentence."""

from sslzoo.environment import check_backend

check_backend()

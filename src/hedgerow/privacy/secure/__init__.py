"""Noise for real data: exact laws on integers, from the operating system's entropy.

The entropy keys AES-256 in counter mode. `SecureNoise` is the source that an engine uses.
`exact.ExactLaw` samples integers; `choice` selects and tosses coins. Nothing here has a seed. The
samplers are proven exact in `proofs/secure_noise.md`.
"""

from hedgerow.privacy.secure.source import SecureNoise

__all__ = ["SecureNoise"]

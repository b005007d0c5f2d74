"""The noise of one party in a deployment: secure, or seeded and saved with the state for tests."""

from __future__ import annotations

import json
from typing import Any

from hedgerow.core.noise import Noise, PassedOn, Releasing, SeededNoise
from hedgerow.privacy.secure import SecureNoise

_CHUNK = 2**11  # numbers drawn at a time; the noise does not depend on it


class PartyNoise:
    """One party's noise.

    Secure noise is drawn afresh and has nothing to save. Seeded noise is restored from what `saved`
    returned, so that a game with crashes has the same transcript as one without.
    """

    def __init__(self, seed: int | None, saved: bytes = b"") -> None:
        self._source: SeededNoise | SecureNoise
        if seed is None:
            self._source = SecureNoise()
        elif saved:
            self._source = SeededNoise.restore(json.loads(saved))
        else:
            self._source = SeededNoise(seed, _CHUNK)

    def server(self) -> Noise:
        """The server's noise."""
        return self._source.server()

    def client(self, index: int, clients: int) -> Noise:
        """The noise of one client."""
        return self._source.single("client", index, clients)

    def saved(self) -> bytes:
        """What restores the noise; empty for secure noise."""
        if isinstance(self._source, SecureNoise):
            return b""
        return json.dumps(self._source.snapshot()).encode()


class Watched(PassedOn):
    """A view on noise that notes whether it was used."""

    used = False

    def drawn(self, method: str, *given: Any) -> Any:
        self.used = True
        return super().drawn(method, *given)

    def release(self, mechanism: Releasing, value: Any) -> Any:
        self.used = True
        return self.inner.release(mechanism, value)

"""What algorithms on private running sums share: the server that decodes them, and the certificate.

The sums of all clients since the last exchange are filtered, released with Gaussian noise and
decoded into running sums. With central trust the server filters and adds the noise; otherwise the
clients do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from hedgerow.algorithms.shared.noisy_reports import noisy_reports
from hedgerow.algorithms.shared.schedule import Schedule
from hedgerow.core.certificate import Certificate, Channel, trusted_server
from hedgerow.core.lattice import Array
from hedgerow.core.layout import Matrix
from hedgerow.core.noise import Noise
from hedgerow.core.setting import Setting
from hedgerow.privacy.curves import Quoted
from hedgerow.privacy.mechanisms import GaussianNoise
from hedgerow.running_sums.factorisation import Factorisation
from hedgerow.running_sums.filters import FilterState
from hedgerow.running_sums.lattice import LatticeEncoder


@dataclass(frozen=True)
class DecodingState:
    """The number of exchanges, and the memories of the encoder (if it is here) and the decoder."""

    exchanges: int
    filtered: Matrix
    decoded: Matrix


@dataclass(frozen=True)
class DecodingServer:
    """Base class: decodes releases into running sums.

    With an encoder, the server filters exact sums and adds the noise. Without one, the uploads are
    filtered and noisy already.
    """

    state: ClassVar[type[Any]] = DecodingState

    width: int
    schedule: Schedule
    factorisation: Factorisation
    encoder: LatticeEncoder | None = None
    releasing: GaussianNoise | None = None

    def start(self) -> DecodingState:
        """Return the state before the first exchange."""
        shape = (self.width,)
        memory = np.zeros((0, *shape)) if self.encoder is None else self.encoder.start(shape).memory
        return DecodingState(0, memory, self.factorisation.decoder.start(shape).memory)

    def running_sums(
        self, state: DecodingState, uploads: Array, noise: Noise
    ) -> tuple[Array, DecodingState]:
        """Return the decoded sums after one more exchange, and the next state."""
        count, memory, released = state.exchanges, state.filtered, uploads
        if self.encoder is not None and self.releasing is not None:
            filtered, after = self.encoder.step(FilterState(count, memory), uploads)
            released, memory = noise.release(self.releasing, filtered), after.memory
        sums, decoded = self.factorisation.decoder.step(FilterState(count, state.decoded), released)
        return sums, DecodingState(count + 1, memory, decoded.memory)


def sums_certificate(
    *,
    setting: Setting,
    mechanism: GaussianNoise,
    central: bool,
    delta: float,
    upload: str,
    announced: Mapping[str, Channel],
    sent: str = "",
    **more: Any,
) -> Certificate:
    """Return the certificate of all releases together, whose curve the mechanism has.

    `upload` is the field that clients send. `sent` and `more`, such as the proof, are as for
    `trusted_server` and `noisy_reports`.
    """
    given = {"curve": Quoted(mechanism.curve, delta), "composition": "shifts", **more}
    if central:
        return trusted_server(
            setting=setting,
            channels={upload: Channel.UPLOADS, **announced},
            mechanisms=(mechanism,),
            sent=sent,
            **given,
        )
    return noisy_reports(
        setting=setting, reporting=mechanism, report=upload, announced=announced, **given
    )

"""The audit cases of each algorithm by name: one line each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hedgerow.algorithms.experts import sparse_vector_audit
from hedgerow.core.audit_case import AuditCase

AUDITS: dict[str, Callable[[Any], tuple[AuditCase, ...]]] = {
    "sparse_vector": sparse_vector_audit.cases,
}

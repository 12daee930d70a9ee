"""Properties are about what comes out, not about how fast a busy machine is."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("patient", deadline=None)
settings.load_profile("patient")

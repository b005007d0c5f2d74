"""Pictures. All modules here need matplotlib."""

from hedgerow.core.extras import needs

with needs("plots"):
    import matplotlib as matplotlib

"""The one compiled file of the package, which is optional; pyproject.toml describes the rest."""

from setuptools import Extension, setup

SUMS = Extension(
    "hedgerow.core._sums",
    ["src/hedgerow/core/_sums.c"],
    extra_compile_args=["-O3"],
    optional=True,  # without a compiler numpy does the same, more slowly
    py_limited_api=True,  # one file for Python 3.11 and later
)
setup(ext_modules=[SUMS], options={"bdist_wheel": {"py_limited_api": "cp311"}})

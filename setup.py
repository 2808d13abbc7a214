"""The packages that are installed: this folder itself, and every package below ``models``, ``scenarios`` and ``sim``.

The folder is the package ``staleloc``, whatever it is called. setuptools' own search would leave that name out.
"""

from setuptools import find_packages, setup

_TOPS = ("models", "scenarios", "sim")

found = find_packages(include=[pattern for top in _TOPS for pattern in (top, f"{top}.*")])
setup(
    packages=["staleloc", *(f"staleloc.{name}" for name in sorted(found))],
    script_name="setup.py",  # it lies in the package's folder, and is left out by this name only
)

"""Builds the extension, with the C library in it, and the programs by the project's own CMake; all else is in pyproject.toml."""
import os
import pathlib
import re
import shutil
import subprocess
import sys

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from wheel.bdist_wheel import bdist_wheel

PROJECT = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = ("daemon/dataloadd", "client/dataloadctl", "daemon/dataload-pack")
BUILD = PROJECT / "build" / "pip"  # nothing is left beside the sources


class CMakeBuild(build_ext):
    def build_extension(self, ext):
        build, made = pathlib.Path(self.build_temp).resolve(), pathlib.Path(self.get_ext_fullpath(ext.name)).resolve()
        made.parent.mkdir(parents=True, exist_ok=True)
        if not shutil.which("cmake"):
            sys.exit(f"there is no cmake here, which the build of dataload takes: install the packages of packages_build in {PROJECT}/cmake/packages.sh")
        subprocess.run(["cmake", "-S", PROJECT, "-B", build, "-DCMAKE_BUILD_TYPE=RelWithDebInfo", "-DDATALOADD_TESTS=OFF",
                        "-DDATALOADD_PYTHON=ON", "-DDATALOADD_SYSTEMD=OFF",
                        f"-DPython3_EXECUTABLE={sys.executable}", f"-DDATALOADD_PYTHON_OUTPUT={made.parent}"], check=True)
        targets = ["python_extension", *(pathlib.Path(program).name for program in PROGRAMS)]
        subprocess.run(["cmake", "--build", build, "--target", *targets, "--parallel", str(os.cpu_count())], check=True)
        (made.parent / "bin").mkdir(exist_ok=True)
        for program in PROGRAMS:
            shutil.copy(build / program, made.parent / "bin")


class StableWheel(bdist_wheel):
    """One wheel for Python 3.9 and later."""

    def finalize_options(self):
        self.py_limited_api = "cp39"
        super().finalize_options()


BUILD.mkdir(parents=True, exist_ok=True)
version = re.search(r"project\(dataloadd VERSION ([0-9.]+)", (PROJECT / "CMakeLists.txt").read_text(encoding="utf-8")).group(1)
setup(version=version, ext_modules=[Extension("dataload._dataload", sources=[], py_limited_api=True)],
      cmdclass={"build_ext": CMakeBuild, "bdist_wheel": StableWheel},
      options={"build": {"build_base": str(BUILD)}, "egg_info": {"egg_base": str(BUILD)}})

"""The pip build: compiles msg/ and srv/ with the CMakeLists.txt that colcon uses.

Where there are no ROS wheels (macOS, aarch64) the interfaces are left out: export, validate and the
other verbs that need no ROS still work there.
"""

import os
import platform
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

NAME = "piper_collect"
HERE = Path(__file__).resolve().parent
HAS_ROS_WHEELS = sys.platform == "linux" and platform.machine() == "x86_64"
SHARED = ("config", "launch", "msg", "rviz", "srv", "urdf")


class BuildWithInterfaces(build_py):
    """build_py, then CMake and rosidl; what they make joins the wheel."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        if HAS_ROS_WHEELS:
            self.distribution.data_files = self._build_interfaces()
        else:
            self.distribution.data_files = [
                (f"share/{NAME}/{path.parent.relative_to(HERE)}", [os.path.relpath(path, HERE)])
                for folder in SHARED
                for path in sorted((HERE / folder).rglob("*"))
                if path.is_file()
            ]

    def _build_interfaces(self) -> list[tuple[str, list[str]]]:
        work = Path(self.build_lib).resolve().parent / "rosidl"
        stage = work / "stage"
        shutil.rmtree(work, ignore_errors=True)
        self._run_cmake(work / "build", stage)
        generated = next(stage.glob(f"lib/python*/site-packages/{NAME}"))
        for source in generated.rglob("*"):
            relative = source.relative_to(generated)
            ours = relative.parts[0] in ("msg", "srv") or source.suffix == ".so"
            if source.is_file() and ours and "__pycache__" not in relative.parts:
                target = Path(self.build_lib) / NAME / relative
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, target)
        data: dict[str, list[str]] = {}
        for source in sorted(stage.rglob("*")):
            relative = source.relative_to(stage)
            if not source.is_file() or "site-packages" in relative.parts:
                continue
            library = relative.parts[0] == "lib" and (len(relative.parts) == 2 or relative.parts[1] == NAME)
            if relative.parts[0] == "share" or library:
                data.setdefault(str(relative.parent), []).append(os.path.relpath(source, HERE))
        return list(data.items())

    def _run_cmake(self, build: Path, stage: Path) -> None:
        if not shutil.which("c++") and not shutil.which("g++"):
            raise SystemExit(f"{NAME}: a C++ compiler is needed to build msg/ and srv/ (apt-get install g++)")
        cmake = shutil.which("cmake")
        spec = find_spec("rosidl_adapter")
        if cmake is None or spec is None or spec.origin is None:
            raise SystemExit(f"{NAME}: cmake and the ROS build wheels of pyproject.toml are needed to build")
        # the wheels lay share/, lib/ and include/ into the prefix three levels above site-packages
        prefix = Path(spec.origin).parents[1].parents[2]
        env = dict(os.environ, AMENT_PREFIX_PATH=str(prefix))
        configure = [
            cmake, "-S", str(HERE), "-B", str(build), "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}",
            f"-DCMAKE_INSTALL_PREFIX={stage}", f"-DPython3_EXECUTABLE={sys.executable}",
            "-DBUILD_TESTING=OFF", "-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_CXX_FLAGS_RELEASE=-O1",
            "-DCMAKE_C_FLAGS_RELEASE=-O1", f"-DCMAKE_PROJECT_INCLUDE={HERE / 'cmake' / 'pip_wheels.cmake'}",
        ]  # fmt: skip
        for command in (configure, [cmake, "--build", str(build), "--target", "install"]):
            done = subprocess.run(command, env=env, capture_output=True, text=True)
            if done.returncode != 0:
                raise SystemExit(
                    f"{NAME}: {' '.join(command[:2])} failed\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
                )


class BinaryDistribution(Distribution):
    """A wheel for one interpreter and platform where interfaces are compiled."""

    def has_ext_modules(self) -> bool:
        return HAS_ROS_WHEELS


setup(distclass=BinaryDistribution, cmdclass={"build_py": BuildWithInterfaces})

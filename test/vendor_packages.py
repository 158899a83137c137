"""Message packages of vendors, made for the tests by ROS's own generators: DDS carries the real types.

No registry has piper_msgs (Piper_ros), agx_arm_msgs (agx_arm_ros), realsense2_camera_msgs (realsense-ros),
ffmpeg_image_transport_msgs and foxglove_msgs.
The interfaces below have their fields, types and order. As a program: ``vendor_packages.py OUT NAME``.
"""

import json
import subprocess
import sys
import sysconfig
from pathlib import Path

import numpy
from video_definitions import COMPRESSED_VIDEO, FFMPEG_PACKET, VIDEO_DEFINITIONS

PREFIX = Path(sys.prefix)
SHARE = PREFIX / "share"
KNOWN = ("builtin_interfaces", "service_msgs", "std_msgs")
SUPPORTS = ("rosidl_typesupport_fastrtps_c", "rosidl_typesupport_introspection_c")
RUNTIME = ("rosidl_runtime_c", "rosidl_typesupport_c", *SUPPORTS, "rosidl_typesupport_fastrtps_cpp")

_SIX = range(1, 7)
INTERFACES = {
    "piper_msgs": {
        "msg/PiperStatusMsg.msg": "\n".join(
            [
                *(f"uint8 {name}" for name in ("ctrl_mode", "arm_status", "mode_feedback", "teach_status")),
                "uint8 motion_status",
                "uint8 trajectory_num",
                "int64 err_code",
                *(f"bool joint_{n}_angle_limit" for n in _SIX),
                *(f"bool communication_status_joint_{n}" for n in _SIX),
            ]
        ),
        "srv/Enable.srv": "bool enable_request\n---\nbool enable_response",
    },
    "agx_arm_msgs": {
        "msg/AgxArmStatus.msg": "\n".join(
            [
                *(f"uint8 {name}" for name in ("ctrl_mode", "arm_status", "mode_feedback", "teach_status")),
                "uint8 motion_status",
                "uint8 trajectory_num",
                "int64 err_status",
                "bool[] joint_angle_limit",
                "bool[] communication_status_joint",
            ]
        ),
    },
    "realsense2_camera_msgs": {
        "srv/DeviceInfo.srv": "---\n"
        + "\n".join(
            f"string {name}"
            for name in (
                "device_name",
                "serial_number",
                "firmware_version",
                "usb_type_descriptor",
                "firmware_update_id",
                "sensors",
                "physical_port",
            )
        ),
    },
    "ffmpeg_image_transport_msgs": {"msg/FFMPEGPacket.msg": VIDEO_DEFINITIONS[FFMPEG_PACKET]},
    "foxglove_msgs": {"msg/CompressedVideo.msg": VIDEO_DEFINITIONS[COMPRESSED_VIDEO]},
}


def make_package(folder: Path, package: str) -> Path:
    """Make a package in ``folder``; what to put on the Python path for it.

    Raises:
        RuntimeError: With what the generators or the compiler said.
    """
    done = subprocess.run(
        [sys.executable, __file__, str(folder), package], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{package} cannot be made: {done.stderr[-2000:]}")
    return folder / "site"


class Maker:
    """Generates and compiles one package.

    Args:
        folder: Empty or missing.
        package: A key of INTERFACES.
    """

    def __init__(self, folder: Path, package: str) -> None:
        self.folder, self.package = folder, package
        self.site = folder / "site" / package
        self.files = [Path(name) for name in INTERFACES[package]]
        self.idl = [name.with_suffix(".idl") for name in self.files]

    def make(self) -> None:
        """From the interface files to a package that Python imports."""
        self.to_idl()
        self.generate()
        core = self.link(f"lib{self.package}.so", self.compile(), self.libraries())
        stubs = [f"lib{self.package}__{support}.so" for support in SUPPORTS]
        for name in (*stubs, f"{self.package}_s__rosidl_typesupport_c.so"):
            self.link(name, [], [core])
        # ROS asks the loader for these by name; loaded once, they are found
        lines = [f"ctypes.CDLL(str(pathlib.Path(__file__).with_name({name!r})))" for name in stubs]
        (self.site / "__init__.py").write_text("\n".join(["import ctypes", "import pathlib", *lines, ""]))

    def to_idl(self) -> None:
        from rosidl_adapter.msg import convert_msg_to_idl
        from rosidl_adapter.srv import convert_srv_to_idl

        convert = {".msg": convert_msg_to_idl, ".srv": convert_srv_to_idl}
        for name in self.files:
            path = self.folder / "source" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(INTERFACES[self.package][str(name)] + "\n")
            convert[name.suffix](
                self.folder / "source", self.package, name, self.folder / "idl" / name.parent
            )

    def generate(self) -> None:
        import rosidl_generator_c
        import rosidl_generator_py
        import rosidl_typesupport_c
        import rosidl_typesupport_fastrtps_c
        import rosidl_typesupport_introspection_c
        from rosidl_generator_type_description import generate_type_hash

        generate_type_hash(self.arguments("rosidl_generator_type_description"))
        rosidl_generator_c.generate_c(self.arguments("rosidl_generator_c"))
        for support, generator in zip(
            SUPPORTS,
            (
                rosidl_typesupport_fastrtps_c.generate_typesupport_fastrtps_c,
                rosidl_typesupport_introspection_c.generate_c,
            ),
            strict=True,
        ):
            generator(self.arguments(support))
        for name in ("rosidl_generator_c", *SUPPORTS):
            for template in (SHARE / name / "resource").glob("*visibility_control.h.in"):
                text = template.read_text().replace("@PROJECT_NAME_UPPER@", self.package.upper())
                header = self.output(name) / "msg" / template.name.removesuffix(".in")
                header.parent.mkdir(exist_ok=True)
                header.write_text(text.replace("@PROJECT_NAME@", self.package))
        rosidl_typesupport_c.generate_c(self.arguments("rosidl_typesupport_c"), list(SUPPORTS))
        for kind in {name.parent for name in self.files}:
            (self.site / kind).mkdir(parents=True)
        rosidl_generator_py.generate_py(self.arguments("rosidl_generator_py"), ["rosidl_typesupport_c"])

    def output(self, generator: str) -> Path:
        return self.site if generator == "rosidl_generator_py" else self.folder / generator / self.package

    def arguments(self, generator: str) -> str:
        """The file that a generator reads what it shall do from."""
        described = self.folder / "rosidl_generator_type_description" / self.package
        content: dict[str, object] = {
            "package_name": self.package,
            "output_dir": str(self.output(generator)),
            "template_dir": str(SHARE / generator / "resource"),
            "idl_tuples": [f"{self.folder / 'idl'}:{name}" for name in self.idl],
            "ros_interface_dependencies": [
                f"{known}:{path}" for known in KNOWN for path in sorted((SHARE / known).glob("*/*.idl"))
            ],
            "target_dependencies": [],
            "include_paths": [f"{known}:{SHARE / known}" for known in KNOWN],
        }
        if generator != "rosidl_generator_type_description":
            descriptions = [f"{name}:{described / name.with_suffix('.json')}" for name in self.idl]
            content["type_description_tuples"] = descriptions
        path = self.folder / f"{generator}.json"
        path.write_text(json.dumps(content))
        return str(path)

    def compile(self) -> list[Path]:
        roots = [self.folder / name for name in ("rosidl_generator_c", "rosidl_typesupport_c", *SUPPORTS)]
        include = PREFIX / "include"
        paths = [*roots, include, *(path for path in sorted(include.iterdir()) if path.is_dir())]
        paths += [Path(sysconfig.get_path("include")), Path(numpy.get_include())]
        sources = [path for root in (*roots, self.site) for path in sorted(root.rglob("*.c*"))]
        objects = []
        for number, source in enumerate(sources):
            objects.append(self.folder / f"{number}.o")
            compiler = ["g++", "-std=c++17"] if source.suffix == ".cpp" else ["gcc"]
            run(
                [*compiler, "-c", "-fPIC", "-O0", "-w", *(f"-I{p}" for p in paths), source, "-o", objects[-1]]
            )
        return objects

    def libraries(self) -> list[Path]:
        lib = PREFIX / "lib"
        known = [path for name in KNOWN for path in sorted(lib.glob(f"lib{name}__rosidl_*_c.so"))]
        known += [lib / f"lib{name}__rosidl_generator_py.so" for name in KNOWN]
        return [*known, *(lib / f"lib{name}.so" for name in ("fastcdr", "rcutils", "rmw", *RUNTIME))]

    def link(self, name: str, objects: list[Path], libraries: list[Path]) -> Path:
        path = self.site / name
        flags = ["-shared", "-Wl,--no-as-needed", "-Wl,-rpath,$ORIGIN", f"-Wl,-soname,{name}"]
        run(["g++", *flags, *objects, *libraries, "-o", path])
        return path


def run(command: list[object]) -> None:
    subprocess.run([str(word) for word in command], check=True)


if __name__ == "__main__":
    Maker(Path(sys.argv[1]), sys.argv[2]).make()

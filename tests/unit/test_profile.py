# SPDX-License-Identifier: GPL-2.0
"""Profiles of emulated servers: what is wrong with one is named by its key."""

import dataclasses
from pathlib import Path

import pytest

from ferry.errors import UsageError
from ferry.server import profile

GOOD = """
summary = "a server"
[machine]
cpus = 1
nodes = 2
cpu_nodes = 1
node_mib = 1024
[dma]
channels = 3
channels_per_path = 2
channel_mb_s = 3000
path_mb_s = 3400
total_mb_s = 18700
descriptor_ns = 3000
register_ns = 0
write_percent = 100
interrupt_ns = 0
small_bytes = 0
small_percent = 100
"""


def _load(folder: Path, text: str) -> profile.Profile:
    (folder / "one.toml").write_text(text)
    return profile.load("one", folder)


@pytest.mark.parametrize("name", profile.names())
def test_shipped_profiles_are_right(name: str) -> None:
    assert profile.load(name).name == name


def test_neighbours_share_a_path(tmp_path: Path) -> None:
    args = _load(tmp_path, GOOD).as_machine().devices
    assert [word.split("fabric=")[1].split(",")[0] for word in args if word.startswith("amd-ptdma")] == [
        "path0",
        "path0",
        "path1",
    ]
    assert "copy-fabric,id=memory,bandwidth=18700000000" in args
    assert "copy-fabric,id=path1,parent=memory,bandwidth=3400000000" in args


def test_ioat_is_functions_of_one_device(tmp_path: Path) -> None:
    ioat = _load(tmp_path, f'engine = "ioat"\n{GOOD.replace("channels = 3", "channels = 8")}')
    args = ioat.as_machine().devices
    assert args[-2 * 8 - 2 : -2 * 8] == ("-machine", "q35")
    places = [",".join(word.split(",")[:4]) for word in args[-15::2]]
    assert places == [f"intel-ioat,id=dma{i},addr=0x8.{i},multifunction=on" for i in range(8)]
    assert ioat.parameters()["engine"] == "ioat"


@pytest.mark.parametrize("channels", [7, 9])
def test_ioat_has_all_functions_of_its_device(tmp_path: Path, channels: int) -> None:
    """A guest finds none without the last of them, and QEMU has no place for more."""
    with pytest.raises(UsageError, match=r"one.toml: dma.channels must be 8, which a device of I/OAT has"):
        _load(tmp_path, f'engine = "ioat"\n{GOOD.replace("channels = 3", f"channels = {channels}")}')


def test_dsa_has_four_channels_in_a_device(tmp_path: Path) -> None:
    good = GOOD.replace("channels = 3", "channels = 8").replace("path = 2", "path = 4")
    dsa = _load(tmp_path, f'engine = "dsa"\n{good}latency_ns = 70\n')
    devices = [word for word in dsa.as_machine().devices if word.startswith("intel-dsa")]
    assert [device.split(",")[1:4] for device in devices] == [
        ["id=dma0", "addr=0x8", "fabric=path0"],
        ["id=dma1", "addr=0x9", "fabric=path1"],
    ]
    assert all(device.endswith("latency-ns=70") for device in devices)
    for wrong in (good.replace("channels = 8", "channels = 6"), good.replace("path = 4", "path = 2")):
        with pytest.raises(UsageError, match="each device of DSA is a path of its own, with 4 channels"):
            _load(tmp_path, f'engine = "dsa"\n{wrong}')


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("channels = 3", "channels = 0", "dma.channels must be a whole number from 1 to 16"),
        ("channels = 3", "channels = 17", "dma.channels must be a whole number from 1 to 16"),
        ("channels = 3", 'channels = "3"', "dma.channels must be"),
        ("channels = 3", "channels = true", "dma.channels must be"),
        ("channels = 3", "", "dma.channels must be"),
        ("descriptor_ns = 3000", "descriptor_ns = -1", "dma.descriptor_ns must be"),
        ("register_ns = 0", "register_ns = -1", "dma.register_ns must be"),
        ("interrupt_ns = 0", "", "dma.interrupt_ns must be"),
        (
            "small_percent = 100",
            "small_percent = 0",
            "dma.small_percent must be a whole number from 1 to 100",
        ),
        ("node_mib = 1024", "node_mib = 511", "machine.node_mib must be"),
        ("cpus = 1", "cpus = 1\ninvalidation_ns = -1", "machine.invalidation_ns must be"),
        ("nodes = 2", "nodes = 1", "machine.nodes must be"),
        ("cpu_nodes = 1", "cpu_nodes = 2", "machine.cpu_nodes must be at most"),
        ("cpus = 1", "cpus = 1\nslow_nodes = 1", "machine.slow_nodes must be true or false"),
        ("[machine]", 'engine = "edma"\n[machine]', "one.toml, 'edma': choose from ptdma, ioat, dsa"),
        ("[machine]", "engine = 1\n[machine]", "'engine' is missing, unknown"),
        ("cpus = 1", 'cpus = 1\niommu = "eager"', "one.toml, 'eager': choose from off, lazy, strict"),
        ("cpus = 1", "cpus = 1\nspeed = 1", "machine.speed is not known"),
        ("[dma]", "[device]", "'dma' is missing"),
        ("[dma]", "[more]\n[dma]", "'more' is missing, unknown"),
        ("[dma]", "[dma", "one.toml: "),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, old: str, new: str, named: str) -> None:
    assert old in GOOD
    text = GOOD.replace(f"\n{old}\n", f"\n{new}\n")
    assert text != GOOD
    with pytest.raises(UsageError) as caught:
        _load(tmp_path, text)
    assert named in str(caught.value)
    assert "\n" not in str(caught.value)


def test_one_like_another_says_what_differs(tmp_path: Path) -> None:
    like = _load(tmp_path, GOOD)
    (tmp_path / "two.toml").write_text(
        'summary = "dear"\nlike = "one"\n[machine]\niommu = "lazy"\n[dma]\nregister_ns = 9\n'
    )
    two = profile.load("two", tmp_path)
    assert (two.name, two.summary, two.dma) == ("two", "dear", dataclasses.replace(like.dma, register_ns=9))
    assert two.computer == dataclasses.replace(like.varied("iommu", "lazy").computer, name="two")


@pytest.mark.parametrize(
    ("like", "named"),
    [
        ("two", "no profile for 'like' in .*/two.toml: 'two': choose from one, three"),
        ("none", "no profile for 'like' in .*/two.toml: 'none': choose from one, three"),
        ("three", "three.toml: 'like' is missing, unknown"),
    ],
)
def test_one_is_like_another_that_is_like_none(tmp_path: Path, like: str, named: str) -> None:
    (tmp_path / "three.toml").write_text(f'like = "one"\n{GOOD}')
    (tmp_path / "two.toml").write_text(f'like = "{like}"\n')
    _load(tmp_path, GOOD)
    with pytest.raises(UsageError, match=named):
        profile.load("two", tmp_path)


@pytest.mark.parametrize("name", sorted({*profile.names()} - {"zen3-likely", "xeon-ioat", "xeon-dsa"}))
def test_what_nobody_has_posted_is_off(name: str) -> None:
    server = profile.load(name)
    dma = server.dma
    assert (dma.register_ns, dma.write_percent, dma.interrupt_ns, dma.small_percent) == (0, 100, 0, 100)
    assert not server.computer.iommu


def test_one_thing_is_varied(tmp_path: Path) -> None:
    server = _load(tmp_path, GOOD)
    one = server.varied("register_ns", 300)
    assert one.varied("register_ns", 0) == server
    assert "register-ns=300,write-percent=100,interrupt-ns=0," in one.as_machine().devices[-1]
    assert server.varied("iommu", "off") == server
    strict = server.varied("iommu", "strict").computer
    assert strict.iommu
    assert "intel-iommu" in str(strict.qemu_args())
    assert strict.kernel_args == ("iommu.strict=1",)


def test_several_things_are_varied_at_once(tmp_path: Path) -> None:
    server = _load(tmp_path, GOOD)
    both = server.varied("several", "register_ns=300 iommu=strict invalidation_ns=2200")
    strict = server.varied("iommu", "strict")
    assert both == strict.varied("register_ns", 300).varied("invalidation_ns", 2200)
    assert "intel-iommu,aw-bits=48,x-invalidation-ns=2200" in both.as_machine().qemu_args()
    assert "x-invalidation-ns" not in str(strict.as_machine().qemu_args())
    assert both.parameters()["invalidation_ns"] == 2200


def test_unknown_profile_names_those_there_are(tmp_path: Path) -> None:
    (tmp_path / "one.toml").write_text(GOOD)
    with pytest.raises(UsageError, match="no profile 'two': choose from one"):
        profile.load("two", tmp_path)


def test_fitted_parameters_leave_comments_alone(tmp_path: Path) -> None:
    (tmp_path / "one.toml").write_text("# why\n" + GOOD)
    before = profile.load("one", tmp_path).dma
    after = profile.Dma(**{**before.__dict__, "path_mb_s": 5})
    profile.store_dma("one", after, tmp_path)
    assert profile.load("one", tmp_path).dma == after
    assert (tmp_path / "one.toml").read_text().startswith("# why\n")

# SPDX-License-Identifier: GPL-2.0
"""ferryctl check and metrics: each thing that can be wrong is told, and by all that tell."""

import json
import re
import stat
from pathlib import Path

import pytest
from prometheus_client import parser
from prometheus_client.openmetrics import parser as openmetrics_parser

import ferryctl
from ferry import paths
from ferryctl_boot import Kernel, following
from ferryctl_check import PROBLEMS, check
from ferryctl_machine import System
from tests.unit.fake_ferry import CHANNELS, Machine, run

GRUB_CFG = """
if [ -s $prefix/grubenv ]; then
  load_env
fi
if [ "${{next_entry}}" ] ; then
   set default="${{next_entry}}"
   set next_entry=
else
   set default="{default}"
fi
menuentry 'Debian GNU/Linux' --class debian $menuentry_id_option 'gnulinux-simple-1' {{
	if [ x$grub_platform = xxen ]; then insmod xzio; fi
	linux	/boot/vmlinuz-6.12.120-amd64 root=/dev/vda1 ro quiet
	initrd	/boot/initrd.img-6.12.120-amd64
}}
submenu 'Advanced options for Debian GNU/Linux' $menuentry_id_option 'gnulinux-advanced-1' {{
	menuentry 'Debian, with Linux 6.12.120-amd64' --class debian $menuentry_id_option 'amd64-120' {{
		linux	/boot/vmlinuz-6.12.120-amd64 root=/dev/vda1 ro
	}}
	menuentry 'Debian, with Linux 6.12.117-ferry' --class debian $menuentry_id_option 'ferry-117' {{
		linux	/boot/vmlinuz-6.12.117-ferry root=/dev/vda1 ro
	}}
}}
menuentry 'Other' $menuentry_id_option 'other' {{
	linux /boot/vmlinuz-6.1.0-cloud root=/dev/vda1
}}
"""
FERRYS = "6.12.117-ferry"


def _boot(system: System, default: str = "0", env: str = "") -> None:
    """Three kernels, one of them Ferry's, and what GRUB has been told."""
    folder = system.root / "boot/grub"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "grub.cfg").write_text(GRUB_CFG.format(default=default))
    (folder / "grubenv").write_text(f"# GRUB Environment Block\n{env}\n####")
    for release in ("6.12.120-amd64", FERRYS, "6.1.0-cloud"):
        (system.root / f"boot/vmlinuz-{release}").touch()
        option = "CONFIG_MIGRATE_OFFLOAD=y\n" if release == FERRYS else ""
        (system.root / f"boot/config-{release}").write_text(f"CONFIG_MIGRATION=y\n{option}")


def _channels(machine: Machine, state: str) -> None:
    """Two of dcbm, the second in that state."""
    path = machine.root / "sys/kernel/debug/dcbm/channels"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{CHANNELS}dma0chan0 0000:01:00.1 0 9 9 0 0 live\ndma0chan1 d 0 9 5 4 0 {state}\n")


def _broken(machine: Machine, problem: str) -> Machine | System:
    """A machine with one thing wrong."""
    conf = machine.root / "etc/ferry.conf"
    if problem == "engine_out_of_service":
        machine.put("active", "cpu")
        machine.says("in_service", "0")
    elif problem == "copies_overdue":
        machine.says("migrators/cpu/overdue", "2")
    elif problem == "memory_given_up":
        machine.says("stats/quarantined_bytes", "2097152")
        _channels(machine, "stuck")
    elif problem == "engine_not_as_configured":
        conf.write_text("engine = mtcopy\n")
    elif problem == "setting_unknown":
        conf.write_text("warp = 9\ntarget_us = 300\n")
    elif problem == "conf_unreadable":
        conf.write_text("target_us 300\n")
    elif problem == "next_boot_without_ferry":
        _boot(machine)
    elif problem == "channels_lost":
        machine.says("available", "cpu dcbm")
        machine.without_device.clear()
        machine.put("active", "dcbm")
        _channels(machine, "failed")
    elif problem == "no_ferry":
        return System(machine.root / "nosuch")
    return machine


def test_a_machine_that_is_well_is_said_to_be(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    _boot(machine, default="1>1")
    assert run(machine, "check") == 0
    assert re.fullmatch(r"well: kernel \S+ has Ferry, no engine is active\n", capsys.readouterr().out)
    machine.put("active", "cpu")
    assert run(machine, "check") == 0
    assert "engine cpu is in service" in capsys.readouterr().out


@pytest.mark.parametrize("problem", PROBLEMS)
def test_each_problem_is_one_line_that_says_what_to_do(
    machine: Machine, capsys: pytest.CaptureFixture[str], problem: str
) -> None:
    system = _broken(machine, problem)
    code = 3 if problem == "no_ferry" else 1
    assert run(system, "check") == code
    said = capsys.readouterr().out
    assert said.count("\n") == 1
    assert re.match("no Ferry: .+; .+" if problem == "no_ferry" else "degraded: .+; .+", said)
    assert run(system, "check", "--json") == code
    found = json.loads(capsys.readouterr().out)
    assert [each["problem"] for each in found["problems"]] == [problem]
    assert found["status"] == code


@pytest.mark.parametrize("problem", PROBLEMS)
def test_each_problem_is_a_metric(machine: Machine, capsys: pytest.CaptureFixture[str], problem: str) -> None:
    system = _broken(machine, problem)
    assert run(system, "metrics") == 0
    found = _metrics(capsys.readouterr().out)
    assert {name for (name,), value in found["ferry_problem"].items() if value} == {problem}
    assert found["ferry_kernel"] == {(): 0.0 if problem == "no_ferry" else 1.0}


def test_several_problems_are_counted(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    for problem in ("memory_given_up", "engine_out_of_service", "copies_overdue"):
        _broken(machine, problem)
    assert run(machine, "check") == 1
    said = capsys.readouterr().out
    assert "engine cpu is out of service" in said
    assert "(2 more: copies_overdue, memory_given_up)" in said


def test_memory_that_an_engine_has_let_go_is_no_problem(machine: Machine) -> None:
    _broken(machine, "memory_given_up")
    assert run(machine, "check") == 1
    _channels(machine, "live")
    assert run(machine, "check") == 0


def test_what_was_changed_by_hand_is_no_fault(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    (machine.root / "etc/ferry.conf").write_text("target_us = 300\nmin_bytes = 1M\nreasons = all\n")
    assert run(machine, "apply") == 0
    assert run(machine, "set", "target_us=900") == 0
    capsys.readouterr()
    assert run(machine, "check") == 0
    assert "changed since boot, and not saved: target_us\n" in capsys.readouterr().out


# --- metrics ---


def _metrics(text: str) -> dict[str, dict[tuple[str, ...], float]]:
    """Samples by name and labels, as both formats have them: a reader of either must take it."""
    new = list(openmetrics_parser.text_string_to_metric_families(text))  # type: ignore[no-untyped-call]
    old = list(parser.text_string_to_metric_families(text))
    read = [
        {
            (sample.name, *sorted(sample.labels.items())): sample.value
            for family in all_
            for sample in family.samples
        }
        for all_ in (new, old)
    ]
    assert read[0] == read[1]
    assert all(family.documentation and family.type != "unknown" for family in new)
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in new:
        for sample in family.samples:
            found.setdefault(sample.name, {})[tuple(sample.labels.values())] = sample.value
    return found


def test_metrics_are_what_the_kernel_counts(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    machine.put("active", "cpu")
    machine.put("target_us", "300")
    assert run(machine, "metrics") == 0
    metrics = _metrics(capsys.readouterr().out)
    assert metrics["ferry_engine_active"] == {("none",): 0, ("cpu",): 1}
    assert metrics["ferry_engine_in_service"] == {("cpu",): 1}
    assert metrics["ferry_engine_bytes_total"] == {("cpu",): 4096000}
    assert metrics["ferry_not_copied_folios_total"][("left",)] == 7
    assert metrics["ferry_setting"][("target_us",)] == 300
    assert metrics["ferry_migrate_mapped_total"] == {("64",): 90, ("2048",): 5}
    assert metrics["ferry_migrate_void_total"] == {("64",): 10, ("2048",): 0}
    assert metrics["ferry_migrate_given_up_total"] == {("64",): 1, ("2048",): 0}
    times = metrics["ferry_inaccessible_folios_total"]
    assert (times[("2e-06",)], times[("4e-06",)], times[("8e-06",)], times[("+Inf",)]) == (0, 10, 15, 15)


def test_a_label_may_hold_anything(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    release = machine.root / "proc/sys/kernel/osrelease"
    release.parent.mkdir(parents=True)
    release.write_text('6.12 "odd" \\ one\n')
    assert run(machine, "metrics") == 0
    version = (paths.ROOT / "VERSION").read_text().strip()
    assert _metrics(capsys.readouterr().out)["ferry_running"] == {('6.12 "odd" \\ one', version): 1}


def test_metrics_are_written_in_one_step(
    machine: Machine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever reads the file while it is written has all of the old one; the collector may read it."""
    path = tmp_path / "collector/ferry.prom"
    assert run(machine, "metrics", "--output", str(path)) == 1
    assert "cannot write" in capsys.readouterr().err
    path.parent.mkdir()
    assert run(machine, "metrics", "--output", str(path)) == 0
    first = path.stat()
    assert stat.S_IMODE(first.st_mode) == 0o644
    with path.open() as old:
        assert run(machine, "metrics", "--output", str(path)) == 0
        assert old.read().endswith("# EOF\n")
    assert path.stat().st_ino != first.st_ino
    assert [each.name for each in path.parent.iterdir()] == ["ferry.prom"]


def test_alerts_ask_for_metrics_that_there_are(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    rules = (paths.ROOT / "tools/monitoring/ferry-alerts.yml").read_text()
    asked = set(re.findall(r"\bferry_\w+", "\n".join(re.findall(r"expr: (.*)", rules))))
    assert len(asked) >= 4
    machine.put("active", "cpu")
    assert run(machine, "metrics") == 0
    assert asked <= set(_metrics(capsys.readouterr().out))
    assert set(re.findall(r'problem=~?"([^"]*)"', rules)) <= set(PROBLEMS)


# --- what boots next ---


@pytest.mark.parametrize(
    ("default", "env", "release"),
    [
        ("0", "", "6.12.120-amd64"),
        ("1>1", "", FERRYS),
        ("1", "", "6.12.120-amd64"),
        ("2", "", "6.1.0-cloud"),
        ("gnulinux-advanced-1>ferry-117", "", FERRYS),
        ("Advanced options for Debian GNU/Linux>Debian, with Linux 6.12.117-ferry", "", FERRYS),
        ("gnulinux-advanced-1", "", "6.12.120-amd64"),
        ("gnulinux-advanced-1>nosuch", "", "6.12.120-amd64"),
        # Not of the first menu
        ("ferry-117", "", "6.12.120-amd64"),
        ("${saved_entry}", "saved_entry=gnulinux-advanced-1>ferry-117", FERRYS),
        ("${saved_entry}", "", "6.12.120-amd64"),
        ("0", "next_entry=1>1", FERRYS),
        ("nosuch", "", "6.12.120-amd64"),
    ],
)
def test_the_kernel_that_boots_next_is_known(machine: Machine, default: str, env: str, release: str) -> None:
    _boot(machine, default, env)
    assert following(machine) == Kernel(release, release == FERRYS)


def test_a_boot_loader_that_nobody_knows_is_no_fault(machine: Machine) -> None:
    assert following(machine) is None
    assert check(machine) == []


def test_without_ferry_the_kernel_to_boot_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    system = System(tmp_path)
    _boot(system)
    assert run(system, "check") == 3
    assert f"boot {FERRYS}, which is installed; see KERNEL UPDATES" in capsys.readouterr().out


def test_the_next_boot_is_told_on_any_kernel(
    machine: Machine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What the hook of kernel packages says, also on Debian's own kernel."""
    for system in (machine, System(tmp_path / "debian")):
        _boot(system)
        assert ferryctl.main(["check", "--next-boot"], system) == 1
        said = capsys.readouterr().out
        assert "next boot: the boot loader starts 6.12.120-amd64 next, which is without Ferry; build" in said
        _boot(system, default="1>1")
        assert ferryctl.main(["check", "--next-boot"], system) == 0
        assert capsys.readouterr().out == f"next boot: {FERRYS}, with Ferry\n"

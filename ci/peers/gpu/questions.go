package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/node/devices"
	"github.com/driver-container/driver-container/node/preflight"
	"github.com/driver-container/driver-container/node/probe"
	"github.com/driver-container/driver-container/node/status"
)

func askVersion(_ context.Context, s *session, a *answer) {
	a.Answer = strings.TrimSuffix(s.ref.Driver+", "+s.flavour, ", ")
	a.Compared = "/sys/module/nvidia/version"
	m, err := (kmod.System{Sys: s.path("sys"), Proc: s.path("proc")}).Module("nvidia")
	if err != nil {
		a.NotAsked = err.Error() // a sandboxed container
		return
	}
	a.expect("the module's version in /sys", m.Version, s.ref.Driver)
}

func askProbe(ctx context.Context, s *session, a *answer) {
	program := filepath.Join(s.programs, "driver-probe")
	if _, err := os.Stat(program); err != nil {
		a.NotAsked = err.Error()
		return
	}
	if source := s.compare(ctx, a, program); source == probe.SourceSMI {
		a.NotAsked = "driver-probe does not run on this machine, whose C library may be too old: its fallback answered"
	}
}

// askFallback asks as in an image whose C library is too old for driver-probe.
func askFallback(ctx context.Context, s *session, a *answer) {
	s.compare(ctx, a, filepath.Join(s.programs, "no-driver-probe"))
}

// compare compares the answers of a program with nvidia-smi's report, and returns their source.
func (s *session) compare(ctx context.Context, a *answer, program string) string {
	options := probe.Options{Probe: program, SMI: s.smi, Env: s.env, Timeout: s.timeout}
	got, err := s.prober.Ask(ctx, options)
	usage, err2 := s.prober.AskUsage(ctx, options)
	_, err3 := s.askSMI(ctx)
	if err := errors.Join(err, err2, err3); err != nil {
		a.differ("%v", err)
		return ""
	}
	a.Answer = "driver " + got.Driver
	a.Compared = "nvidia-smi -q -x: driver; number, UUID, name and PCI address of each GPU; " +
		"total memory to 1 MiB, used (with reserved) to 256 MiB, utilisation present in both"
	a.expect("the driver", got.Driver, s.ref.Driver)
	if len(got.Devices) != len(s.ref.GPUs) {
		a.differ("%d GPUs, nvidia-smi has %d", len(got.Devices), len(s.ref.GPUs))
	}
	for _, want := range s.ref.GPUs {
		same := func(d probe.Device) bool { return d.UUID == want.UUID }
		i := slices.IndexFunc(got.Devices, same)
		u := slices.IndexFunc(usage.Devices, same)
		if i < 0 || u < 0 {
			a.differ("%s is missing", want.UUID)
			continue
		}
		a.expect("the name of "+want.UUID, got.Devices[i].Name, want.Name)
		if !want.isAt(got.Devices[i].PCI) {
			a.differ("%s is at %s, want %s", want.UUID, got.Devices[i].PCI, want.Address)
		}
		a.Answer += "; " + got.Devices[i].Name
		a.usage(usage.Devices[u], want)
	}
	return got.Source
}

// usage compares the memory and utilisation of a GPU. Other programs on the machine work on between
// two questions.
func (a *answer) usage(d probe.Device, want smiGPU) {
	const mib, slack = 1 << 20, 256 << 20
	number := func(text string) int64 { // "143771 MiB", "37 %"; -1 for "N/A"
		var n int64
		if _, err := fmt.Sscan(text, &n); err != nil {
			return -1
		}
		return n
	}
	distance := func(a uint64, b int64) uint64 { return max(a, uint64(b)) - min(a, uint64(b)) }
	total := number(want.Total)
	used := number(want.Used) * mib
	busy := number(want.Utilization)
	if (total < 0) != (d.Memory == nil) || (busy < 0) != (d.Utilization == nil) {
		a.differ(
			"%s: memory %v, utilisation %v; nvidia-smi has %q, %q",
			d.UUID,
			d.Memory,
			d.Utilization,
			want.Total,
			want.Utilization,
		)
	}
	if total >= 0 && d.Memory != nil {
		a.Answer += fmt.Sprintf(", %d of %d MiB", d.Memory.Used/mib, d.Memory.Total/mib)
		if distance(d.Memory.Total, total*mib) > mib {
			a.differ(
				"%s has %d bytes of memory, nvidia-smi says %s",
				d.UUID,
				d.Memory.Total,
				want.Total,
			)
		}
		// NVML's older call, which every branch has, counts the reserved memory as used.
		withReserved := used + max(0, number(want.Reserved))*mib
		if min(distance(d.Memory.Used, withReserved), distance(d.Memory.Used, used)) > slack {
			a.differ(
				"%s uses %d bytes, nvidia-smi says %s and %s reserved",
				d.UUID,
				d.Memory.Used,
				want.Used,
				want.Reserved,
			)
		}
	}
}

func askBus(_ context.Context, s *session, a *answer) {
	gpus, err := devices.GPUs(s.path("sys"))
	if err != nil || len(gpus) == 0 {
		a.NotAsked = fmt.Sprintf(
			"/sys shows no PCI device of NVIDIA here, as in a sandboxed container (%v)",
			err,
		)
		return
	}
	s.gpus = gpus
	a.Answer = fmt.Sprintf("%d on the bus", len(gpus))
	a.Compared = "address and PCI ids of each GPU in nvidia-smi; each is bound to nvidia"
	for _, want := range s.ref.GPUs {
		i := slices.IndexFunc(gpus, func(g devices.GPU) bool { return want.isAt(g.Address) })
		if i < 0 {
			a.differ("%s is not on the bus", want.Address)
			continue
		}
		got := fmt.Sprintf("%04X%04X bound to %s", gpus[i].Device, gpus[i].Vendor, gpus[i].Driver)
		a.expect(
			gpus[i].Address,
			got,
			strings.TrimPrefix(strings.ToUpper(want.ID), "0X")+" bound to nvidia",
		)
	}
}

// askTaken compares what the driver shows in procfs, from which node/devices makes device files.
func askTaken(_ context.Context, s *session, a *answer) {
	minors, err := devices.Nodes{
		Dev:  s.path("dev"),
		Proc: s.path("proc"),
		Sys:  s.path("sys"),
	}.Minors()
	if err != nil || len(minors) == 0 {
		a.NotAsked = fmt.Sprintf(
			"/proc/driver/nvidia/gpus is empty here, as in a sandboxed container (%v)",
			err,
		)
		return
	}
	addresses := slices.Collect(maps.Keys(minors))
	a.Answer = fmt.Sprintf("%d GPUs", len(minors))
	a.Compared = "minor_number of each GPU in nvidia-smi, and the number of /dev/nvidiaN"
	for _, want := range s.ref.GPUs {
		at := slices.IndexFunc(addresses, want.isAt)
		if at < 0 {
			a.differ("%s is not in procfs", want.Address)
			continue
		}
		minor := minors[addresses[at]]
		file := s.path("dev", fmt.Sprintf("nvidia%d", minor))
		var st unix.Stat_t
		err := unix.Stat(file, &st)
		got := fmt.Sprintf(
			"minor %d, file %d:%d %v",
			minor,
			unix.Major(st.Rdev),
			unix.Minor(st.Rdev),
			err,
		)
		a.expect(
			want.Address,
			got,
			fmt.Sprintf("minor %s, file 195:%s %v", want.Minor, want.Minor, error(nil)),
		)
	}
}

// askPreflight judges the checks of preflight that a machine must pass whose driver works. The
// other checks are about the container and the node's software.
func askPreflight(ctx context.Context, s *session, a *answer) {
	if len(s.gpus) == 0 {
		a.NotAsked = "/sys shows no PCI device of NVIDIA here"
		return
	}
	release, err := os.ReadFile(s.path("proc/sys/kernel/osrelease"))
	modules, err2 := kmod.System{Sys: s.path("sys"), Proc: s.path("proc")}.Loaded()
	if err := errors.Join(err, err2); err != nil {
		a.NotAsked = err.Error()
		return
	}
	branch, _, _ := strings.Cut(s.ref.Driver, ".")
	in := preflight.Input{Sys: s.path("sys"), Proc: s.path("proc"), Root: s.root, Host: s.path("proc/1/root"), RunDir: s.path("run/nvidia"),
		Info:    driverinfo.Description{Driver: s.ref.Driver, Branch: "R" + branch, Flavours: []string{s.flavour}},
		Release: strings.TrimSpace(string(release)), Modules: modules,
		Previous: s.ref.Driver, GPUs: s.gpus, Flavour: s.flavour, HaveModules: true, Source: status.Adopted, Stays: true}
	list, _ := filepath.Glob(s.path("usr/share/doc/*/supported-gpus/supported-gpus.json")) //nolint:errcheck // the pattern is valid
	if len(list) > 0 {
		in.Supported, in.SupportedErr = preflight.ReadSupported(list[0])
	}
	a.Compared = fmt.Sprintf("a driver that works: no check of the GPUs may block or warn (with the driver's list of GPUs: %q)", list)
	judged := []string{preflight.GPUPresent, preflight.GPUDriver, preflight.GPUSupported, preflight.GPUFlavour}
	for _, c := range preflight.Run(ctx, in) {
		if !slices.Contains(judged, c.Name) {
			continue
		}
		a.Answer += c.Name + " " + string(c.Status) + " "
		if c.Status == preflight.Blocked || c.Status == preflight.Warning {
			a.differ("%s: %s", c.Name, c.Finding)
		}
	}
}

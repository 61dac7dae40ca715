package gpu

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/node/devices"
	"github.com/driver-container/driver-container/node/probe"
)

// options are those of a query through driver-probe.
func (s *session) options(program string) probe.Options {
	return probe.Options{Probe: program, SMI: s.smi, Env: s.env, Timeout: s.Timeout}
}

// driverProbe is where driver-probe was put for this machine.
func (s *session) driverProbe() string { return filepath.Join(s.Programs, "driver-probe") }

func askProbe(ctx context.Context, s *session) found {
	if _, err := os.Stat(s.driverProbe()); err != nil {
		return notAsked("%v", err)
	}
	a, err := s.prober.Ask(ctx, s.options(s.driverProbe()))
	if err != nil {
		return found{differences: []string{err.Error()}}
	}
	if a.Source != probe.SourceProbe {
		return notAsked("driver-probe does not run on this machine, whose C library may be too old: its fallback answered")
	}
	s.probed = a
	return s.compareDevices(a)
}

// askFallback asks as in an image whose C library is too old for driver-probe.
func askFallback(ctx context.Context, s *session) found {
	a, err := s.prober.Ask(ctx, s.options(filepath.Join(s.work, "no-driver-probe")))
	if err != nil {
		return found{differences: []string{err.Error()}}
	}
	if s.probed.Source == "" {
		s.probed = a
	}
	return s.compareDevices(a)
}

// compareDevices compares an answer with nvidia-smi's report.
func (s *session) compareDevices(a probe.Answer) found {
	f := found{answer: fmt.Sprintf("driver %s, %s", a.Driver, models(a.Devices)), compared: "driver, number, UUID, name and PCI address of each GPU in nvidia-smi -q -x"}
	f.expect("the driver", a.Driver, s.ref.Driver)
	if len(a.Devices) != len(s.ref.GPUs) {
		f.differ("%d GPUs, nvidia-smi has %d", len(a.Devices), len(s.ref.GPUs))
	}
	for _, want := range s.ref.GPUs {
		i := slices.IndexFunc(a.Devices, func(d probe.Device) bool { return d.UUID == want.UUID })
		if i < 0 {
			f.differ("%s is missing", want.UUID)
			continue
		}
		f.expect("the name of "+want.UUID, a.Devices[i].Name, want.Name)
		if !a.Devices[i].At(want.sysfsAddress()) {
			f.differ("%s is at %s, want %s", want.UUID, a.Devices[i].PCI, want.sysfsAddress())
		}
	}
	return f
}

// models returns "2 NVIDIA H200, 1 Tesla T4".
func models(all []probe.Device) string {
	count := map[string]int{}
	for _, d := range all {
		count[d.Name]++
	}
	var words []string
	for _, name := range slices.Sorted(maps.Keys(count)) {
		words = append(words, fmt.Sprintf("%d %s", count[name], name))
	}
	return strings.Join(words, ", ")
}

// memorySlack is how much the used memory may differ between two questions: other programs on the machine
// work on.
const memorySlack = 256 << 20

func askUsage(ctx context.Context, s *session) found {
	a, err := s.prober.AskUsage(ctx, s.options(s.driverProbe()))
	if err != nil {
		return found{differences: []string{err.Error()}}
	}
	s.probed = a
	f := found{compared: "nvidia-smi -q -x: total memory to 1 MiB, used (with reserved) to 256 MiB, utilisation present in both and in range"}
	var words []string
	now, err := s.askSMI(ctx)
	if err != nil {
		return found{differences: []string{err.Error()}}
	}
	for _, want := range now.GPUs {
		i := slices.IndexFunc(a.Devices, func(d probe.Device) bool { return d.UUID == want.UUID })
		if i < 0 {
			f.differ("%s is missing", want.UUID)
			continue
		}
		words = append(words, f.usage(a.Devices[i], want))
	}
	f.answer = strings.Join(words, ", ")
	return f
}

// usage compares the memory and utilisation of a GPU and returns them as text.
func (f *found) usage(d probe.Device, want smiGPU) string {
	const mib = 1 << 20
	text := "no memory of its own"
	total, has := number(want.Total)
	used, _ := number(want.Used)
	reserved, _ := number(want.Reserved)
	switch {
	case has != (d.Memory != nil):
		f.differ("%s: memory %v, nvidia-smi has %q", d.UUID, d.Memory, want.Total)
	case d.Memory != nil:
		text = fmt.Sprintf("%d of %d MiB", d.Memory.Used/mib, d.Memory.Total/mib)
		if distance(d.Memory.Total, total*mib) > mib {
			f.differ("%s has %d bytes of memory, nvidia-smi says %s", d.UUID, d.Memory.Total, want.Total)
		}
		// NVML's older call, which every branch has, counts the reserved memory as used.
		if min(distance(d.Memory.Used, (used+reserved)*mib), distance(d.Memory.Used, used*mib)) > memorySlack {
			f.differ("%s uses %d bytes, nvidia-smi says %s and %s reserved", d.UUID, d.Memory.Used, want.Used, want.Reserved)
		}
	}
	percent, has := number(want.Utilization)
	switch {
	case has != (d.Utilization != nil):
		f.differ("%s: utilisation %v, nvidia-smi has %q", d.UUID, d.Utilization, want.Utilization)
	case d.Utilization != nil:
		text += fmt.Sprintf(", %.0f %% busy (nvidia-smi a moment later: %d %%)", 100**d.Utilization, percent)
	}
	return text
}

func distance(a, b uint64) uint64 { return max(a, b) - min(a, b) }

func askBus(_ context.Context, s *session) found {
	gpus, err := devices.GPUs(s.path("sys"))
	if err != nil {
		return found{differences: []string{err.Error()}}
	}
	if len(gpus) == 0 {
		return notAsked("/sys shows no PCI device of NVIDIA here, as in a sandboxed container")
	}
	s.gpus = gpus
	f := found{compared: "address and PCI ids of each GPU in nvidia-smi; each is bound to nvidia"}
	for _, want := range s.ref.GPUs {
		i := slices.IndexFunc(gpus, func(g devices.GPU) bool { return probe.Device{PCI: g.Address}.At(want.sysfsAddress()) })
		if i < 0 {
			f.differ("%s is not on the bus", want.sysfsAddress())
			continue
		}
		f.expect("the id of "+gpus[i].Address, fmt.Sprintf("%04X%04X", gpus[i].Device, gpus[i].Vendor), strings.TrimPrefix(strings.ToUpper(want.ID), "0X"))
		f.expect("the driver of "+gpus[i].Address, gpus[i].Driver, "nvidia")
	}
	f.answer = fmt.Sprintf("%d on the bus, %d of them in nvidia-smi", len(gpus), len(s.ref.GPUs))
	return f
}

// askTaken compares what the driver shows in procfs, from which node/devices makes device files.
func askTaken(_ context.Context, s *session) found {
	nodes := devices.Nodes{Dev: s.path("dev"), Proc: s.path("proc"), Sys: s.path("sys")}
	minors, err := nodes.Minors()
	if err != nil {
		return found{differences: []string{err.Error()}}
	}
	if len(minors) == 0 {
		return notAsked("/proc/driver/nvidia/gpus is empty here, as in a sandboxed container")
	}
	f := found{compared: "minor_number of each GPU in nvidia-smi, and the number of /dev/nvidiaN"}
	var files []string
	for _, want := range s.ref.GPUs {
		minor, ok := minors[want.sysfsAddress()]
		if !ok {
			f.differ("the driver does not show %s in /proc/driver/nvidia/gpus", want.sysfsAddress())
			continue
		}
		f.expect("the minor number of "+want.sysfsAddress(), fmt.Sprint(minor), want.Minor)
		file := s.path("dev", fmt.Sprintf("nvidia%d", minor))
		var st unix.Stat_t
		if err := unix.Stat(file, &st); err != nil {
			f.differ("%s: %v", file, err)
		} else if got := fmt.Sprintf("%d:%d", unix.Major(st.Rdev), unix.Minor(st.Rdev)); got != fmt.Sprintf("195:%d", minor) {
			f.differ("%s has number %s, want 195:%d", file, got, minor)
		}
		files = append(files, filepath.Base(file))
	}
	slices.Sort(files)
	f.answer = fmt.Sprintf("%d GPUs; %s", len(minors), strings.Join(files, ", "))
	return f
}

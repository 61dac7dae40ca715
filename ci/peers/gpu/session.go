package main

import (
	"context"
	"encoding/xml"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/node/daemons"
	"github.com/driver-container/driver-container/node/devices"
	"github.com/driver-container/driver-container/node/probe"
)

// machine says where things are.
type machine struct {
	root     string        // "/"; a stand-in in tests
	programs string        // folder with driver-probe
	timeout  time.Duration // of one program
}

// path is a path on the machine.
func (m machine) path(elem ...string) string {
	return filepath.Join(append([]string{m.root}, elem...)...)
}

// session is a machine with what is known of it.
type session struct {
	machine
	flavour string // open or proprietary; "": the machine does not show it
	smi     string // nvidia-smi
	env     []string
	ref     smiReport // nvidia-smi's
	prober  probe.Prober
	gpus    []devices.GPU // on the bus
}

// Where machines have the driver: NVIDIA's packages, the distributions, and providers that mount it
// into containers.
var (
	libraryDirs = []string{
		"usr/local/nvidia/lib64",
		"usr/lib/x86_64-linux-gnu",
		"usr/lib/aarch64-linux-gnu",
		"usr/lib64",
		"usr/lib/*/nvidia/current",
	}
	programDirs = []string{
		"usr/bin",
		"usr/local/nvidia/bin",
		"usr/sbin",
		"opt/bin",
		"usr/lib/nvidia/current",
	}
)

// open looks for the driver. The error wraps errNoGPU if none is loaded, or if it has no GPU.
func open(ctx context.Context, m machine) (*session, error) {
	s := &session{machine: m, env: os.Environ(), smi: m.find(programDirs, "nvidia-smi")}
	// sandboxed containers have none
	banner, noBanner := os.ReadFile(m.path("proc/driver/nvidia/version"))
	switch {
	case strings.Contains(string(banner), "Open Kernel Module"):
		s.flavour = driverinfo.Open
	case noBanner == nil:
		s.flavour = driverinfo.Proprietary
	case s.smi == "":
		return nil, fmt.Errorf("%w: %w, and there is no nvidia-smi", errNoGPU, noBanner)
	}
	if s.smi == "" {
		return nil, fmt.Errorf(
			"a driver is loaded, and nvidia-smi is in none of /%s: there is nothing to compare with",
			strings.Join(programDirs, ", /"),
		)
	}
	if lib := m.find(libraryDirs, "libnvidia-ml.so.1"); lib != "" {
		s.env = append(
			s.env,
			"LD_LIBRARY_PATH="+strings.TrimSuffix(
				filepath.Dir(lib)+":"+os.Getenv("LD_LIBRARY_PATH"),
				":",
			),
		)
	}
	code, err := s.askSMI(ctx)
	switch {
	case err != nil && (noBanner != nil || code == 6 || code == 9): // no device, no driver: its manual page, RETURN VALUE
		return nil, fmt.Errorf("%w: %w", errNoGPU, err)
	case err == nil && len(s.ref.GPUs) == 0:
		return nil, fmt.Errorf(
			"%w: driver %s is loaded, and nvidia-smi lists no GPU",
			errNoGPU,
			s.ref.Driver,
		)
	}
	return s, err
}

// find returns the path of the first file of a name, "" if there is none.
func (m machine) find(dirs []string, name string) string {
	for _, dir := range dirs {
		found, _ := filepath.Glob(m.path(dir, name)) //nolint:errcheck // the pattern is valid
		if len(found) > 0 {
			return found[0]
		}
	}
	return ""
}

// smiReport is what `nvidia-smi -q -x` prints: the reference. driver-probe's fallback reads another
// format of nvidia-smi, so that the two can be compared.
type smiReport struct {
	Driver string   `xml:"driver_version"`
	GPUs   []smiGPU `xml:"gpu"`
}

type smiGPU struct {
	Address     string `xml:"id,attr"` // 00000000:05:00.0
	Name        string `xml:"product_name"`
	UUID        string `xml:"uuid"`
	Minor       string `xml:"minor_number"`
	ID          string `xml:"pci>pci_device_id"` // 233510DE: device and vendor
	Total       string `xml:"fb_memory_usage>total"`
	Reserved    string `xml:"fb_memory_usage>reserved"`
	Used        string `xml:"fb_memory_usage>used"`
	Utilization string `xml:"utilization>gpu_util"`
}

// askSMI reads nvidia-smi's report, and returns its exit code.
func (s *session) askSMI(ctx context.Context) (code int, err error) {
	r, err := daemons.Run(ctx, s.smi, []string{"-q", "-x"}, s.env, s.timeout)
	switch {
	case err != nil:
		return r.Code, err
	case r.Code != 0:
		return r.Code, fmt.Errorf("%s -q -x: exit code %d: %.1000s", s.smi, r.Code, r.Output())
	}
	var report smiReport
	err = xml.Unmarshal(r.Stdout, &report)
	if err != nil {
		return 0, err
	}
	s.ref = report
	return 0, nil
}

// isAt says whether the GPU has an address as the kernel writes it: 0000:05:00.0.
func (g smiGPU) isAt(address string) bool { return probe.Device{PCI: g.Address}.At(address) }

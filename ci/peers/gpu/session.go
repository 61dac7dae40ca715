package gpu

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/driver-container/driver-container/distros/bounded"
	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/node/devices"
	"github.com/driver-container/driver-container/node/probe"
)

// session is a machine with what is known of it.
type session struct {
	Machine
	work    string // a temporary folder
	version string // of the loaded kernel modules
	flavour string // open or proprietary; "": the machine does not show it
	smi     string // nvidia-smi
	libs    string // folder with libnvidia-ml.so.1
	env     []string
	ref     smiReport // nvidia-smi's

	prober probe.Prober
	probed probe.Answer // of driver-probe, with usage once that was asked
	gpus   []devices.GPU
}

// procText bounds files of procfs.
const procText = 1 << 16

// Where machines have the driver: NVIDIA's packages, the distributions, and providers that mount it into
// containers.
var (
	libraryDirs = []string{
		"usr/local/nvidia/lib64", "usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "usr/lib64", "usr/local/nvidia/lib",
		"usr/lib/x86_64-linux-gnu/nvidia/current", "usr/lib/aarch64-linux-gnu/nvidia/current", "lib64", "usr/lib",
		"lib/x86_64-linux-gnu", "lib/aarch64-linux-gnu",
	}
	programDirs = []string{"usr/bin", "usr/local/nvidia/bin", "usr/sbin", "bin", "opt/bin", "usr/lib/nvidia/current"}
)

// path is a path on the machine.
func (m Machine) path(elem ...string) string {
	return filepath.Join(append([]string{m.Root}, elem...)...)
}

// open looks for the driver. The error wraps ErrNoGPU if none is loaded, or if it has no GPU.
func open(ctx context.Context, m Machine, work string) (*session, error) {
	m.Root, m.Timeout = cmp.Or(m.Root, "/"), cmp.Or(m.Timeout, time.Minute)
	s := &session{Machine: m, work: work, env: os.Environ()}
	banner, noBanner := bounded.Text(m.path("proc/driver/nvidia/version"), procText)
	if s.smi = s.find(programDirs, "nvidia-smi"); s.smi == "" {
		if noBanner != nil {
			return nil, fmt.Errorf("%w: %w, and nvidia-smi is in none of /%s", ErrNoGPU, noBanner, strings.Join(programDirs, ", /"))
		}
		return nil, fmt.Errorf("a driver is loaded (%s), and nvidia-smi is in none of /%s: without it there is nothing to compare with",
			strings.TrimSpace(banner), strings.Join(programDirs, ", /"))
	}
	if lib := s.find(libraryDirs, "libnvidia-ml.so.1"); lib != "" {
		s.libs = filepath.Dir(lib)
		s.env = append(s.env, "LD_LIBRARY_PATH="+strings.TrimSuffix(s.libs+":"+os.Getenv("LD_LIBRARY_PATH"), ":"))
	}
	ref, err := s.askSMI(ctx)
	if err != nil {
		if code := exitCode(err); noBanner != nil || code == 6 || code == 9 { // no device, no driver: its manual page, RETURN VALUE
			return nil, fmt.Errorf("%w: %w", ErrNoGPU, err)
		}
		return nil, err
	}
	s.ref = ref
	if s.version = versionIn(banner); s.version == "" { // sandboxed containers have no /proc/driver
		s.version = ref.Driver
	}
	switch {
	case strings.Contains(banner, "Open Kernel Module"):
		s.flavour = driverinfo.Open
	case noBanner == nil:
		s.flavour = driverinfo.Proprietary
	}
	if len(s.ref.GPUs) == 0 {
		return nil, fmt.Errorf("%w: driver %s is loaded, and nvidia-smi lists no GPU", ErrNoGPU, s.version)
	}
	return s, nil
}

// find returns the path of the first file of a name, "" if there is none.
func (s *session) find(dirs []string, name string) string {
	for _, dir := range dirs {
		if st, err := os.Stat(s.path(dir, name)); err == nil && st.Mode().IsRegular() {
			return s.path(dir, name)
		}
	}
	return ""
}

// versionIn returns the version in the first line of /proc/driver/nvidia/version:
// "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.261.03  Mon ...".
func versionIn(banner string) string {
	line, _, _ := strings.Cut(banner, "\n")
	for word := range strings.FieldsSeq(line) {
		if parts := strings.Split(word, "."); len(parts) >= 2 && len(parts[0]) == 3 && strings.Trim(word, "0123456789.") == "" {
			return word
		}
	}
	return ""
}

func askVersion(_ context.Context, s *session) found {
	f := found{answer: strings.TrimSuffix(s.version+", "+s.flavour, ", "), compared: "nvidia-smi's driver_version, and /sys/module/nvidia/version"}
	f.expect("nvidia-smi's driver_version", s.ref.Driver, s.version)
	m, err := (kmod.System{Sys: s.path("sys"), Proc: s.path("proc")}).Module("nvidia")
	switch {
	case errors.Is(err, fs.ErrNotExist):
		f.compared = "nvidia-smi's driver_version; /sys does not show the module here, as in a sandboxed container"
	case err != nil:
		f.differ("%v", err)
	default:
		f.expect("the module's version in /sys", m.Version, s.version)
	}
	return f
}

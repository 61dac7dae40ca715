package vgpu

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"

	"github.com/driver-container/driver-container/node/daemons"
)

// Where the licence daemons are in an image.
const (
	griddProgram     = "usr/bin/nvidia-gridd"
	topologydProgram = "usr/bin/nvidia-topologyd"
)

// griddDir returns the folder of nvidia-gridd's own libraries, below the system's library folder.
func (f Facts) griddDir() string {
	triplet := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH] + "-linux-gnu"
	const rpm = "usr/lib64/nvidia/gridd" // library folder of rpm systems
	if st, err := os.Stat(f.path(rpm)); err == nil && st.IsDir() {
		return rpm
	}
	return "usr/lib/" + triplet + "/nvidia/gridd"
}

func (f Facts) has(name string) bool {
	st, err := os.Stat(f.path(name))
	return err == nil && st.Mode().IsRegular()
}

// Daemons returns the licence and topology daemons that the image has. Before each start the licence's files
// are read and copied again, because they may have been renewed.
func Daemons(f Facts) []daemons.Spec {
	f = f.withDefaults()
	var specs []daemons.Spec
	if f.has(griddProgram) {
		specs = append(specs, daemons.Spec{
			Name: "nvidia-gridd", Path: f.path(griddProgram), Required: true,
			Env:     append(os.Environ(), "LD_LIBRARY_PATH="+f.path(f.griddDir())),
			PIDFile: f.path("var/run/nvidia-gridd/nvidia-gridd.pid"), Effect: "the vGPUs get no licence, and become slow after some minutes to a day",
			Before: func(context.Context) error { return f.prepare() },
			FindArgs: func(context.Context) ([]string, string, error) {
				l, err := f.Licence()
				return nil, strings.Join(append([]string{l.String()}, l.Notes...), "; "), err
			},
		})
	}
	if f.has(topologydProgram) {
		specs = append(specs, daemons.Spec{
			Name: "nvidia-topologyd", Path: f.path(topologydProgram), Required: true,
			PIDFile: f.path("var/run/nvidia-topologyd/nvidia-topologyd.pid"),
			Before: func(context.Context) error {
				return os.MkdirAll(f.path("var/run/nvidia-topologyd"), 0o755)
			},
		})
	}
	return specs
}

// prepare makes the folders of nvidia-gridd, and copies the files of the licence.
func (f Facts) prepare() error {
	for _, dir := range []string{"var/run/nvidia-gridd", "var/lib/nvidia/GridLicensing"} {
		if err := os.MkdirAll(f.path(dir), 0o755); err != nil {
			return fmt.Errorf("make a folder of nvidia-gridd: %w", err)
		}
	}
	l, err := f.Licence()
	if err != nil {
		return err
	}
	return f.install(l)
}

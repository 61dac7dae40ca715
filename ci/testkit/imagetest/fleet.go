package imagetest

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// Fleet says how large the world of a large matrix is.
type Fleet struct {
	Systems int // at most ten; the tenth is flatcar
	Drivers int // each a .run archive that all systems share
	Files   int // further files in each base
	Payload int // bytes of a large file in each driver
}

// NewFleet starts a world with a matrix of systems by drivers for amd64, in which every pair can be
// built.
func NewFleet(t testing.TB, f Fleet) *World {
	t.Helper()
	w := start(t)
	for _, s := range systems[:min(f.Systems, len(systems))] {
		s.extraFiles = f.Files
		s.homepage = "https://example.com/" + s.id
		w.addSystem(s)
	}
	if f.Systems > len(systems) {
		w.addRow("flatcar", "debian13", amd64, "    kernels: [6.6]\n")
	}
	noise := payload(f.Payload)
	for i := range f.Drivers {
		version := fmt.Sprintf("535.%d.01", 100+i)
		files := DriverFiles(version, "amd64")
		if f.Payload > 0 {
			files = append(
				files,
				text("usr/share/nvidia-driver/firmware/nvidia/"+version+"/gsp_tu10x.bin", version+noise),
			)
		}
		w.drivers = append(w.drivers, version)
		w.PutRun(version, "amd64", Run(t, version, "amd64", files, nil))
	}
	return w
}

// payload is half text and half noise, so that it costs a compressor what a library costs it.
func payload(n int) string {
	var b strings.Builder
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same bytes in each run
	for b.Len() < n {
		fmt.Fprintf(&b, "%016x a line of text that a compressor finds again\n", random.Uint64())
	}
	return b.String()[:n]
}

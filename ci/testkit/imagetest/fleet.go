package imagetest

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// Fleet says how large the world of a large matrix is.
type Fleet struct {
	Systems int // at most len(fleetSystems)
	Drivers int // each a .run archive that all systems share
	Files   int // further files in each base
	Payload int // bytes of a large file in each driver
}

// fleetSystems share one folder of libraries, and so the layers of a driver. flatcar has debian13's
// base.
func fleetSystems() []system {
	var all []system
	for _, s := range []struct{ id, suite, libc string }{
		{"debian12", "bookworm", "2.36-9"},
		{"debian13", "trixie", "2.41-12"},
		{"ubuntu22.04", "jammy", "2.35-0ubuntu3"},
		{"ubuntu24.04", "noble", "2.39-0ubuntu8"},
		{"ubuntu20.04", "focal", "2.31-0ubuntu9"},
		{"debian11", "bullseye", "2.31-13"},
		{"ubuntu18.04", "bionic", "2.27-3ubuntu1"},
		{"ubuntu16.04", "xenial", "2.23-0ubuntu11"},
		{"ubuntu26.04", "resolute", "2.43-1"},
	} {
		all = append(all, system{
			id: s.id, family: s.id, version: strings.TrimLeft(s.id, "abcdefghijklmnopqrstuvwxyz"), suite: s.suite,
			archs: []string{
				"amd64",
			}, components: []string{"main"}, merged: s.id > "ubuntu18.04" || s.id < "ubuntu", libc: s.libc,
		})
	}
	return all
}

// NewFleet starts a world with a matrix of systems by drivers for amd64, in which every pair can be
// built.
func NewFleet(t testing.TB, f Fleet) *World {
	t.Helper()
	w := start(t)
	all := fleetSystems()
	for _, s := range all[:min(f.Systems, len(all))] {
		s.extraFiles = f.Files
		s.homepage = "https://example.com/" + s.id
		w.Archives[s.id] = w.newArchive(s)
		w.Archives[s.id].Publish()
		w.pushBase(s)
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
		w.PutRun(version, "amd64", Run(t, version, "amd64", files, nil))
	}
	w.matrix = w.fleetMatrix(f)
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

// fleetMatrix is the matrix of a fleet. Its systems are those of the fleet and, as the tenth,
// flatcar.
func (w *World) fleetMatrix(f Fleet) string {
	var b strings.Builder
	b.WriteString("systems:\n")
	all := fleetSystems()
	for _, s := range all[:min(f.Systems, len(all))] {
		fmt.Fprintf(
			&b,
			"  - {id: %s, base: '%s', archs: [amd64], kernels: [5.10]}\n",
			s.id,
			w.Base(s.id),
		)
	}
	if f.Systems > len(all) {
		fmt.Fprintf(
			&b,
			"  - {id: flatcar, base: '%s', archs: [amd64], kernels: [6.6]}\n",
			w.Base("debian13"),
		)
	}
	b.WriteString("drivers:\n")
	for i := range f.Drivers {
		w.writeDriver(&b, fmt.Sprintf("535.%d.01", 100+i))
	}
	return b.String()
}

package status_test

import (
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/releases"
	"github.com/driver-container/driver-container/images/status"
)

// TestWarningsOfKernels: systems whose kernels break a driver for the same reason share a warning.
func TestWarningsOfKernels(t *testing.T) {
	t.Parallel()
	flavours := []string{matrix.Proprietary}
	driver := matrix.Driver{Version: "1", Flavours: flavours, Kernel: driverinfo.KernelRule{Broken: []driverinfo.Broken{
		{From: "5.9", Reason: "nothing"}, {From: "6.13", Reason: "less"},
	}}}
	var targets []matrix.Target
	for _, s := range []matrix.System{{ID: "a", Kernels: []string{"5.4", "5.10"}}, {ID: "b", Kernels: []string{"5.4"}}, {ID: "c", Kernels: []string{"6.13"}}} {
		for _, arch := range []string{"amd64", "arm64"} {
			targets = append(targets, matrix.Target{System: s, Driver: driver, Arch: arch, Flavours: flavours})
		}
	}
	want := []string{"driver 1 on a, c: no modules work from 5.9 on: nothing", "driver 1 on c: no modules work from 6.13 on: less"}
	found := status.WarningsOf(targets, releases.Advisor{Day: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)})
	assert.Same(t, want, found.Texts())
	assert.Equalf(t, 0, len(found.Texts(driverinfo.KernelBroken)), "warnings about releases")
}

// TestWithoutFabric: a driver that is named has a warning if NVIDIA has a fabric manager for it and the matrix does not.
func TestWithoutFabric(t *testing.T) {
	t.Parallel()
	archive := map[string]matrix.Archive{"amd64": {}}
	var targets []matrix.Target
	for _, d := range []matrix.Driver{
		{Version: "595.99.02"}, {Version: "595.91.07", Components: matrix.Components{matrix.FabricManager: archive}}, {Version: "418.87.01"},
		{Version: "580.1", VGPU: "19.1"},
	} {
		for _, system := range []string{"a", "b"} {
			targets = append(targets, matrix.Target{System: matrix.System{ID: system}, Driver: d, Arch: "amd64"})
		}
	}
	all := matrix.Selection{Drivers: []string{"595.99.02", "595.91.07", "418.87.01", "580.1"}}
	want := []string{"the matrix has no fabric manager for driver 595.99.02 on amd64: on nodes with NVLink switches (HGX, DGX) every CUDA program " +
		"fails with error 802; driver-build list shows the drivers that have one"}
	assert.Same(t, want, status.WithoutFabric(targets, all))
	assert.Equalf(t, 0, len(status.WithoutFabric(targets, matrix.Selection{})), "no driver is named")
	all.NoFabric = true
	assert.Equalf(t, 0, len(status.WithoutFabric(targets, all)), "it is not wanted")
}

// TestWarningsOfSystems: systems past their end of life are in one note, those close to it in another, each once.
func TestWarningsOfSystems(t *testing.T) {
	t.Parallel()
	system := func(id, until string) matrix.Target {
		return matrix.Target{System: matrix.System{ID: id, EndOfLife: matrix.EndOfLife{Until: until, Source: "s"}}}
	}
	targets := []matrix.Target{
		system("amzn2", "2026-06"), system("amzn2", "2026-06"), system("sles15.6", "2025-12"), system("fedora43", "2026-12"),
		system("debian13", "2030-06"), system("ol10", ""),
	}
	found := status.WarningsOf(targets, releases.Advisor{Day: time.Date(2026, 11, 29, 0, 0, 0, 0, time.UTC)})
	want := []string{
		"their distributions no longer support amzn2 (2026-06), sles15.6 (2025-12)",
		"their distributions' support ends soon for fedora43 (2026-12)",
	}
	assert.Same(t, want, found.Notices)
	assert.Equal(t, 0, len(found.All))
}

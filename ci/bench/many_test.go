package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/imagetest"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

// BenchmarkMany builds the ten of 100 images that have all distinct layers, into a new cache and layout, and then
// all 100, with the program DRIVER_BUILD. The numbers are added to BENCH_RAW.
func BenchmarkMany(b *testing.B) {
	const side, payload = 10, 64 << 20
	program, dir := os.Getenv("DRIVER_BUILD"), b.TempDir()
	if program == "" {
		b.Skip("DRIVER_BUILD names no program")
	}
	world := imagetest.NewFleet(b, imagetest.Fleet{Systems: side, Drivers: side, Files: 2000, Payload: payload})
	systems := []string{"debian12", "debian13", "ubuntu22.04", "ubuntu24.04", "ubuntu20.04", "debian11", "ubuntu18.04", "ubuntu16.04", "ubuntu26.04", "flatcar"}
	var diagonal strings.Builder
	diagonal.WriteString(world.Matrix() + "exclude:\n")
	for i, system := range systems {
		for j := range side {
			if i != j {
				fmt.Fprintf(&diagonal, "  - {system: %s, driver: 535.%d.01, reason: not on the diagonal}\n", system, 100+j)
			}
		}
	}
	for _, run := range []struct{ name, matrix string }{{"distinct", diagonal.String()}, {"all", world.Matrix()}} {
		matrix, cache, dist := filepath.Join(dir, run.name+".yaml"), filepath.Join(dir, "cache"), filepath.Join(dir, "dist")
		require.NoError(b, os.WriteFile(matrix, []byte(run.matrix), 0o600))
		b.Run(run.name, func(b *testing.B) {
			for b.Loop() {
				require.NoError(b, os.RemoveAll(cache))
				require.NoError(b, os.RemoveAll(dist))
				common := []string{"--all", "--matrix", matrix, "--cache", cache, "--progress", "quiet"}
				call(b, program, append([]string{"fetch"}, common...))
				begin := time.Now()
				// By itself, ubuntu16.04 has layers of its own, with gzip.
				processor := call(b, program, append(common, "--compression", "zstd", "--output", "oci:"+dist))
				record(b, run.name, time.Since(begin), processor)
			}
		})
	}
}

// call runs a program and returns its processor time.
func call(b *testing.B, program string, args []string) time.Duration {
	b.Helper()
	cmd := exec.CommandContext(b.Context(), program, args...)
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("%q: %v\n%s", args, err, out)
	}
	return cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
}

func record(b *testing.B, name string, elapsed, processor time.Duration) {
	b.Helper()
	f := require.Value(os.OpenFile(os.Getenv("BENCH_RAW"), os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o644))(b)
	require.Value(fmt.Fprintf(f, "many\t%s\t%.2f\t\t%.2f\t\n", name, elapsed.Seconds(), processor.Seconds()))(b)
	require.NoError(b, f.Close())
}

// Package fleetbench measures what a large matrix costs driver-build: how the commands grow with the
// targets, and what a hundred images cost that share most layers. It is not part of the product;
// ci/bench/run runs it and gives it BENCH_RAW, to which the numbers are added.
package fleetbench

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

// caller calls driver-build as a process of its own.
type caller struct {
	*imagetest.World
	program, dir string
}

func newCaller(b *testing.B, f imagetest.Fleet) *caller {
	b.Helper()
	program := os.Getenv("DRIVER_BUILD")
	if program == "" {
		b.Skip("DRIVER_BUILD names no program")
	}
	c := &caller{imagetest.NewFleet(b, f), program, b.TempDir()}
	require.NoError(b, os.WriteFile(c.path("matrix.yaml"), []byte(c.Matrix()), 0o600))
	return c
}

func (c *caller) path(name string) string { return filepath.Join(c.dir, name) }

// cost is what one call took.
type cost struct {
	elapsed, processor time.Duration
	peak               int64 // bytes
	requests           int
}

func (c *caller) call(b *testing.B, args string) (spent cost) {
	b.Helper()
	words := strings.Fields(args)
	if words[0] != "list" {
		words = append(words, "--cache", c.path("cache"), "--progress", "quiet")
	}
	if !strings.Contains(args, "--matrix") {
		words = append(words, "--matrix", c.path("matrix.yaml"))
	}
	before, start := c.Requests(""), time.Now()
	cmd := exec.CommandContext(b.Context(), c.program, words...)
	cmd.Dir = c.dir
	var stderr strings.Builder
	cmd.Stderr = &stderr
	require.NoError(b, cmd.Start())
	ended, peak := make(chan struct{}), make(chan int64)
	go func() { peak <- peakMemory(cmd.Process.Pid, ended) }()
	err := cmd.Wait()
	close(ended)
	spent = cost{time.Since(start), cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), <-peak, c.Requests("") - before}
	if err != nil {
		b.Fatalf("%s: %v\n%s", args, err, stderr.String())
	}
	return spent
}

// peakMemory is the most memory that a process had until it ended. What the kernel says of an ended process
// is of no use: the memory of the process that started it counts too.
func peakMemory(pid int, ended <-chan struct{}) (peak int64) {
	for {
		select {
		case <-ended:
			return peak
		case <-time.After(10 * time.Millisecond):
		}
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			var kilobytes int64
			if _, err := fmt.Sscanf(line, "VmHWM: %d kB", &kilobytes); err == nil {
				peak = max(peak, kilobytes<<10)
			}
		}
	}
}

func (spent cost) report(b *testing.B) {
	_, name, _ := strings.Cut(b.Name(), "/")
	f := require.Value(os.OpenFile(os.Getenv("BENCH_RAW"), os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o644))(b)
	require.Value(fmt.Fprintf(f, "many\t%s\t%.2f\t%d\t%.2f\t\n", name, spent.elapsed.Seconds(), spent.peak/1000, spent.processor.Seconds()))(b)
	require.NoError(b, f.Close())
	b.ReportMetric(float64(spent.requests), "requests")
}

// BenchmarkCommands calls each command about 1 and 1000 targets, with a cache that has
// what it needs.
func BenchmarkCommands(b *testing.B) {
	for _, n := range []int{1, 1000} {
		c := newCaller(b, imagetest.Fleet{Systems: min(n, 10), Drivers: max(1, n/10), Packages: 2000, Files: 2000})
		images := "--repository " + c.Host + "/gpu/driver --allow-missing-programs"
		c.call(b, "check "+images) // fills the cache
		for _, command := range []struct{ name, args string }{
			{"list", "list"},
			{"check", "check " + images},
			{"plan", "plan " + images},
			{"report", "report --compare --releases none --html " + c.path("page.html") + " " + images},
			{"lock", "lock --update --lock " + c.path("other.lock")},
			{"dry-run", "--all --dry-run --allow-missing-programs"},
		} {
			b.Run(fmt.Sprintf("%s/%d", command.name, n), func(b *testing.B) {
				for b.Loop() {
					c.call(b, command.args).report(b)
				}
			})
		}
	}
}

// BenchmarkImages builds the ten of 100 images that have all distinct layers, into a new cache and layout, all
// 100, and all again.
func BenchmarkImages(b *testing.B) {
	const side, payload = 10, 64 << 20
	c := newCaller(b, imagetest.Fleet{Systems: side, Drivers: side, Files: 2000, Payload: payload})
	systems := []string{"debian12", "debian13", "ubuntu22.04", "ubuntu24.04", "ubuntu20.04", "debian11", "ubuntu18.04", "ubuntu16.04", "ubuntu26.04", "flatcar"}
	var diagonal strings.Builder
	diagonal.WriteString(c.Matrix() + "exclude:\n")
	for i, system := range systems {
		for j := range side {
			if i != j {
				fmt.Fprintf(&diagonal, "  - {system: %s, driver: 535.%d.01, reason: not on the diagonal}\n", system, 100+j)
			}
		}
	}
	require.NoError(b, os.WriteFile(c.path("diagonal.yaml"), []byte(diagonal.String()), 0o600))
	build := "--all --allow-missing-programs --output oci:" + c.path("dist")
	for _, run := range []struct{ name, matrix string }{{"distinct/10", "diagonal.yaml"}, {"all/100", "matrix.yaml"}} {
		from := " --matrix " + c.path(run.matrix)
		b.Run(run.name, func(b *testing.B) {
			for b.Loop() {
				require.NoError(b, os.RemoveAll(c.path("cache")))
				require.NoError(b, os.RemoveAll(c.path("dist")))
				c.call(b, "fetch --all"+from)
				c.call(b, build+from).report(b)
			}
		})
	}
	b.Run("again/100", func(b *testing.B) {
		for b.Loop() {
			c.call(b, build).report(b)
		}
	})
}

package scenarios

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/lab"
	"github.com/driver-container/driver-container/ci/testkit/logtest"
	"github.com/driver-container/driver-container/node/status"
)

// Helpers of the scenarios about one driver's life and its successors'.

// loads returns how often the driver was loaded since boot, by the kernel's own log.
func loads(g *lab.Guest) int { return strings.Count(g.Dmesg(), "loading NVIDIA UNIX") }

// probes requires these exit codes of the probes of a container.
func probes(t *testing.T, p *lab.Process, startup, ready, live int) {
	t.Helper()
	for name, code := range map[string]int{"startup": startup, "ready": ready, "live": live} {
		if r := p.Exec("nvidia-driver", "probe", name); r.Code != code {
			t.Errorf("want exit code %d of %s", code, r)
		}
	}
}

// phasesOf waits for the end of a start and requires all its phases in their order, in the log and in the
// status. It returns the duration of each phase from the status.
func phasesOf(t *testing.T, g *lab.Guest, p *lab.Process) map[string]time.Duration {
	t.Helper()
	p.WaitLine(logtest.Up, time.Minute)
	want := status.Phases()
	var logged, kept []string
	for _, l := range p.Lines() {
		if _, rest, ok := strings.Cut(l.Text, logtest.PhaseFinished); ok {
			name, took, _ := strings.Cut(rest, " duration=")
			if _, err := time.ParseDuration(took); err != nil {
				t.Errorf("no time in %q", l.Text)
			}
			logged = append(logged, name)
		}
	}
	took := map[string]time.Duration{}
	for _, p := range statusOf(t, g).Phases {
		kept = append(kept, p.Phase)
		took[p.Phase] = time.Duration(p.Seconds * float64(time.Second)).Round(time.Millisecond)
	}
	if !slices.Equal(logged, want) || !slices.Equal(kept, want) {
		t.Errorf("phases in the log %v, in the status %v, want %v", logged, kept, want)
	}
	return took
}

// since returns the time from the fork of a container's first process to one of its lines, by the guest's
// clocks.
func since(t *testing.T, g *lab.Guest, p *lab.Process, text string) time.Duration {
	t.Helper()
	clock := g.Process("cat", "/proc/uptime")
	clock.Wait(time.Minute)
	uptime, _, _ := strings.Cut(clock.Output(), " ")
	stat := g.Read(fmt.Sprintf("/proc/%d/stat", p.PID))
	fields := strings.Fields(stat[strings.LastIndex(stat, ")")+1:])
	now, err := strconv.ParseFloat(uptime, 64)
	ticks, err2 := strconv.ParseFloat(fields[19], 64) // field 22, starttime, in hundredths of a second since boot
	if err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	begin := clock.Lines()[0].At.Add(-time.Duration((now - ticks/100) * float64(time.Second)))
	for _, l := range p.Lines() {
		if strings.Contains(l.Text, text) {
			return l.At.Sub(begin)
		}
	}
	t.Fatalf("%s has no line %q", p, text)
	return 0
}

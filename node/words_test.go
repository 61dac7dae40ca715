package node

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/node/daemons"
	"github.com/driver-container/driver-container/node/devices"
	"github.com/driver-container/driver-container/node/lock"
	"github.com/driver-container/driver-container/node/preflight"
	"github.com/driver-container/driver-container/node/probe"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func TestWriteStatus(t *testing.T) {
	t.Parallel()
	cfg := Defaults()
	cfg.Run = t.TempDir()
	held, err := lock.Acquire(t.Context(), lock.Options{Path: cfg.lockPath(), Legacy: cfg.legacyLock(), Self: lock.Holder{PID: 7, Pod: "gpu/driver-old", Since: noon}})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	write := func(what string, st Status, instances ...kmod.Holder) {
		t.Helper()
		fmt.Fprintf(&out, "--- %s\n", what)
		if err := WriteStatus(&out, st, cfg, instances); err != nil {
			t.Fatal(err)
		}
	}
	write("degraded, and another one waits", sample(), kmod.Holder{PID: 7, Container: "a"}, kmod.Holder{PID: 9, Container: "b", Pod: "uid", PodName: "driver-new", PodNamespace: "gpu"},
		kmod.Holder{PID: 10, Container: "c", PodName: "driver-old", PodNamespace: "gpu"}, kmod.Holder{PID: 11}, kmod.Holder{PID: 12, Container: "a"})
	holders := []kmod.Holder{{PID: 4711, Command: "python3", Pod: "u", PodName: "train-0", PodNamespace: "team", Files: []string{"/dev/nvidia0"}},
		{PID: 4712, Command: "python3", Pod: "u", PodName: "train-0", PodNamespace: "team", Files: []string{"/dev/nvidia0"}}, {PID: 3, Command: "Xorg", Files: []string{"/dev/dri/card0"}}}
	write("waiting for holders", Status{State: Waiting, WaitsFor: ForHolders, Phase: "replace", Reason: "driver 470 must go", Holders: holders})
	write("waiting for safe load", Status{State: Waiting, WaitsFor: ForClearance, Phase: "replace", Reason: "waiting for safe load"})
	write("stopping", Status{State: Stopping, Holders: holders[:1]})
	write("compiling", Status{State: Starting, Phase: "modules"})
	if err := held.Release(); err != nil {
		t.Fatal(err)
	}
	write("serving, killed", Status{State: Serving})
	write("failed", Status{State: Failed, Reason: "no", LastFailure: &Failure{Time: noon, Wanted: v535, Pod: "gpu/driver-x", Reason: "no"}})
	write("absent", Status{Schema: StatusSchema, State: Absent})
	got := strings.ReplaceAll(out.String(), cfg.Run, "/run/nvidia")
	const golden = "testdata/status.txt"
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if diff := cmp.Diff(string(want), got); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	many := &InUseError{}
	for pid := range 10 {
		many.Holders = append(many.Holders, kmod.Holder{PID: pid + 1, Command: "python3", Files: []string{"/dev/nvidia0"}})
	}
	why, lost := errors.New("no GPU"), errors.New("file gone")
	for _, test := range []struct {
		err  error
		want []string
	}{
		{many, []string{"Could not unload NVIDIA driver kernel modules, driver is in use by pid 1 (python3)", "pid 8 ", "and 2 more", "Stop these processes"}},
		{&InUseError{Module: "nvidia_uvm"}, []string{"module nvidia_uvm has references", "hostPID"}},
		{&RollbackError{Old: v470, New: v535, Err: why}, []string{"driver 535.261.03 failed to start, 470.256.02 is loaded again: no GPU"}},
		{&RollbackError{Old: v470, New: v535, Err: why, Restore: lost}, []string{"535.261.03 failed to start: no GPU; and 470.256.02 could not be put back: file gone"}},
	} {
		for _, want := range test.want {
			if !strings.Contains(test.err.Error(), want) {
				t.Errorf("%q is not in %q", want, test.err)
			}
		}
	}
	if strings.Contains(many.Error(), "pid 9 ") {
		t.Errorf("too long: %v", many)
	}
	if both := (&RollbackError{Err: why, Restore: lost}); !errors.Is(both, why) || !errors.Is(both, lost) {
		t.Error("the reasons are lost")
	}
}

// Kubernetes keeps 4096 bytes of /dev/termination-log.
func TestLastWords(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "termination-log")
	n := &Node{cfg: Config{Termination: file}, say: t.Logf}
	n.lastWords(errors.New("x"))
	if _, err := os.Stat(file); err == nil {
		t.Error("outside of Kubernetes nothing is written")
	}
	for _, test := range []struct {
		text string
		size int
	}{{"short", 5}, {strings.Repeat("x", 4096), 4096}, {strings.Repeat("x", 9000), 4096}, {"x" + strings.Repeat("é", 4000), 4095}} {
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		n.lastWords(errors.New(test.text))
		if got, err := os.ReadFile(file); err != nil || len(got) != test.size || !strings.HasPrefix(test.text, string(got)) {
			t.Errorf("%d bytes of %d, %v", len(got), len(test.text), err)
		}
	}
	n.cfg.Termination = ""
	n.lastWords(errors.New("x"))
	n.cfg.Termination = t.TempDir() // a folder cannot be written
	n.lastWords(errors.New("x"))
}

func TestSamePCI(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		a, b string
		want bool
	}{
		{"00000000:05:00.0", "0000:05:00.0", true}, {"0000:05:00.0", "0000:05:00.0", true}, {"0000:AF:00.0", "0000:af:00.0", true},
		{"10000:05:00.0", "00010000:05:00.0", true}, {"0001:05:00.0", "0000:05:00.0", false}, {"0000:06:00.0", "0000:05:00.0", false}, {"", "0000:05:00.0", false},
	} {
		if got := samePCI(test.a, test.b); got != test.want {
			t.Errorf("samePCI(%q, %q) = %v", test.a, test.b, got)
		}
	}
}

// quietHardware says nothing of a GPU.
type quietHardware struct{ hardware }

func (quietHardware) Reasons(string) []string { return nil }

func TestJudge(t *testing.T) {
	t.Parallel()
	n := &Node{hardware: quietHardware{}, gpus: []devices.GPU{
		{Address: "0000:05:00.0", Vendor: 0x10de, Device: 0x1eb8, Driver: "nvidia"},
		{Address: "0000:06:00.0", Vendor: 0x10de, Device: 0x1eb8, Driver: "nvidia"},
		{Address: "0000:07:00.0", Vendor: 0x10de, Device: 0x102d, Driver: "pci-stub"},
	}}
	gpus, broken := n.judge(probe.Answer{Devices: []probe.Device{{PCI: "00000000:05:00.0", Name: "Tesla T4", UUID: "GPU-1"}}})
	want := []GPU{
		{Address: "0000:05:00.0", ID: "10de:1eb8", Name: "Tesla T4", UUID: "GPU-1", Works: true},
		{Address: "0000:06:00.0", ID: "10de:1eb8", Reason: "the driver does not list it, and the kernel's log says nothing of it"},
		{Address: "0000:07:00.0", ID: "10de:102d", Reason: "it is bound to pci-stub"},
	}
	if diff := cmp.Diff(want, gpus); diff != "" || len(broken) != 2 || !strings.Contains(broken[1], "0000:07:00.0") {
		t.Errorf("%q %s", broken, diff)
	}
}

func TestDaemonReason(t *testing.T) {
	t.Parallel()
	got := daemonReason([]daemons.State{{Name: "a", Ready: true}, {Name: "b", Reason: "it ended"}, {Name: "c", Reason: "no socket"}})
	if got != "b is not running: it ended; c is not running: no socket" {
		t.Error(got)
	}
}

func TestWaive(t *testing.T) {
	t.Parallel()
	got := waive([]preflight.Check{{Name: "memory", Status: preflight.Blocked}, {Name: "headers", Status: preflight.Blocked}, {Name: "gpus", Status: preflight.OK}}, []string{"memory", "gpus"})
	if got[0].Status != preflight.Warning || got[1].Status != preflight.Blocked || got[2].Status != preflight.OK {
		t.Errorf("%+v", got)
	}
}

func TestMarkers(t *testing.T) {
	t.Parallel()
	run := t.TempDir()
	m := markers{run: run, digest: "abc"}
	read := func(name string) string {
		data, err := os.ReadFile(filepath.Join(run, name))
		if err != nil {
			return "-"
		}
		return string(data)
	}
	see := func(when, daemonsText, startup, digest string) {
		t.Helper()
		if got := []string{read(daemonsMarker), read(startupMarker), read(digestFile)}; !cmp.Equal(got, []string{daemonsText, startup, digest}) {
			t.Errorf("%s: %q", when, got)
		}
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
	}
	must(m.notReady())
	see("starting", "NotReady\n", "-", "-")
	must(m.ready())
	see("ready", "Ready\n", "-", "abc\n")
	const flags = "GDRCOPY_ENABLED: false\nGDS_ENABLED: true\nGPU_DIRECT_RDMA_ENABLED: false\n"
	for range 2 {
		must(MarkStarted(run, func(name string) string {
			return map[string]string{"GDS_ENABLED": "true", "GDRCOPY_ENABLED": "yes"}[name]
		}))
	}
	see("probed", "Ready\n", flags, "abc\n")
	must(markers{run: run}.ready())
	see("without a digest", "Ready\n", flags, "-")
	must(m.notReady())
	see("degraded", "NotReady\n", "-", "-")
	must(m.ready())
	must(m.gone())
	must(m.gone())
	see("gone", "-", "-", "-")
	if err := MarkStarted("/proc/nowhere", os.Getenv); err == nil {
		t.Error("no folder, no error")
	}
	if err := (markers{run: "/proc/nowhere"}).notReady(); err == nil {
		t.Error("no folder, no error")
	}
}

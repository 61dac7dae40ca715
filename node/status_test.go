package node

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/node/daemons"
	"github.com/driver-container/driver-container/node/devices"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// sample has every field.
func sample() Status {
	return Status{
		Schema: StatusSchema, BootID: "b", State: Degraded, Reason: "GPU 0000:06:00.0 (10de:1eb8) does not initialise", Phase: "verify",
		Instance: "i", PID: 12, Pod: "driver-x", PodSpace: "gpu", PodUID: "u", Image: "driver:535", Started: noon, Updated: noon.Add(time.Minute), Kernel: "6.1.0-38-amd64", Wanted: v535,
		Phases: []Timing{{"lock", 0.001}, {"load", 1.25}}, Warnings: []string{"preflight: memory: little"},
		Counters: Counters{Compiled: 1, CompilesFailed: 2, CacheHits: 3, CacheMisses: 4, BlockedUnloads: 5}, LastFailure: &Failure{Time: noon, Wanted: v535, Pod: "gpu/driver-w", Reason: "refused"},
		Up: &Driver{Version: v535, Flavour: "proprietary", Source: "cache", Signer: "ACME (sha256, key 1A:AE)", RootID: "id", RootDir: "/var/lib/nvidia-driver/roots/535", Firmware: true,
			Modules: []LoadedModule{{Name: "nvidia", SrcVersion: "ABC", File: "/f", SHA256: "00", Params: []string{"NVreg_A=1"}}},
			InTree:  []string{"ipmi_msghandler"}, Nodes: []devices.Node{{Path: "/dev/nvidia0", Major: 195, Made: true}}},
		Daemons: []daemons.State{{Name: "nvidia-persistenced", PID: 7, Running: true, Ready: true, Restarts: 2, Since: noon}},
		GPUs:    []GPU{{Address: "0000:05:00.0", ID: "10de:1eb8", Name: "Tesla T4", UUID: "GPU-1", Works: true}, {Address: "0000:06:00.0", ID: "10de:1eb8", Reason: "NVRM: no"}},
		Holders: []kmod.Holder{{PID: 4711, Command: "python3", Files: []string{"/dev/nvidia0"}}},
	}
}

func TestStatusFile(t *testing.T) {
	t.Parallel()
	file := statusFileIn(t.TempDir())
	if _, err := file.load(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	if err := file.save(sample()); err != nil {
		t.Fatal(err)
	}
	got, err := file.load()
	if diff := cmp.Diff(sample(), got); diff != "" || err != nil {
		t.Errorf("%v, %s", err, diff)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(string(file)), ".*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if err := errors.Join(file.remove()); err != nil || !errors.Is(file.remove(), fs.ErrNotExist) {
		t.Errorf("remove: %v", err)
	}
}

func TestReadStatusRefuses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": "EOF", "{": "unexpected EOF", `{"schema":2}`: "schema 2, this program knows 1", `[]`: "cannot unmarshal", `{}`: "schema 0",
		`{"schema":1,"pid":"x"}`: "cannot unmarshal", `{"schema":1}` + strings.Repeat(" ", 1<<20): "bytes",
	} {
		file := statusFileIn(t.TempDir())
		if err := os.WriteFile(string(file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if st, err := file.load(); err == nil || !strings.Contains(err.Error(), want) || st.Schema != 0 {
			t.Errorf("%.20q: %v, want %q", text, err, want)
		}
	}
}

// countingShelf counts what is written, and fails while it is full.
type countingShelf struct {
	saves int
	full  bool
	st    Status
}

func (s *countingShelf) load() (Status, error) { return s.st, nil }
func (s *countingShelf) remove() error         { return nil }
func (s *countingShelf) save(st Status) error {
	if s.full {
		return errors.New("no space left on device")
	}
	s.saves++
	s.st = st
	return nil
}

func TestBoard(t *testing.T) {
	t.Parallel()
	shelf, now, said := &countingShelf{}, noon, 0
	b := &board{shelf: shelf, say: func(string, ...any) { said++ }, now: func() time.Time { now = now.Add(time.Second); return now }}
	b.set(Starting, "")
	b.set(Starting, "")
	if first := shelf.st.Updated; shelf.saves != 1 || !first.After(noon) {
		t.Errorf("the same twice: %d writes, %v", shelf.saves, first)
	}
	shelf.full = true
	b.set(Serving, "")
	b.set(Degraded, "x")
	if said != 1 || shelf.st.State != Starting {
		t.Errorf("a full disk was told %d times", said)
	}
	shelf.full = false
	b.set(Degraded, "x")
	if shelf.st.State != Degraded || shelf.saves != 2 {
		t.Errorf("after a failed write: %+v", shelf.st)
	}
	b.change(func(st *Status) { st.Warnings = append(st.Warnings, "w") })
	got := b.get()
	got.Warnings[0] = "changed"
	if shelf.st.Warnings[0] != "w" || b.get().Ready {
		t.Error("get returns what is not its own")
	}
	mute := b.mute()
	mute.set(Failed, "y")
	if shelf.st.State != Degraded || mute.adoptFile().State != "" {
		t.Error("a mute board speaks")
	}
}

func TestAdoptFile(t *testing.T) {
	t.Parallel()
	b := &board{shelf: &countingShelf{st: sample()}, st: Status{BootID: "b"}}
	if got := b.adoptFile(); got.Up == nil {
		t.Errorf("the same boot: %+v", got)
	}
	if b.st.BootID = "another"; b.adoptFile().Up != nil {
		t.Error("what another boot had up is gone")
	}
}

func FuzzReadStatus(f *testing.F) {
	seed, err := json.Marshal(sample())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Add([]byte(`{"schema":1}`))
	file := statusFileIn(f.TempDir())
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := os.WriteFile(string(file), data, 0o600); err != nil {
			t.Fatal(err)
		}
		if st, err := file.load(); err != nil && st.Schema != 0 {
			t.Error("an error with a status")
		}
	})
}

func statusFileIn(dir string) statusFile { return statusFile(Config{Run: dir}.statusPath()) }

package status

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

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/require"
	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/node/daemons"
	"github.com/driver-container/driver-container/node/devices"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// sample has every field.
func sample() Snapshot {
	return Snapshot{
		Schema: Schema, BootID: "b", State: Degraded, Reason: "GPU 0000:06:00.0 (10de:1eb8) does not initialise", Phase: "verify",
		Instance: "i", PID: 12, Pod: "driver-x", PodSpace: "gpu", PodUID: "u", Image: "driver:535", Started: noon, Updated: noon.Add(time.Minute), Kernel: "6.1.0-38-amd64", Wanted: "535.261.03",
		Phases: []Timing{{"lock", 0.001}, {"load", 1.25}}, Warnings: []string{"preflight: memory: little"},
		Counters: Counters{Compiled: 1, CompilesFailed: 2, CacheHits: 3, CacheMisses: 4, BlockedUnloads: 5}, LastFailure: &Failure{Time: noon, Wanted: "535.261.03", Pod: "gpu/driver-w", Reason: "refused"},
		Up: &Driver{Version: "535.261.03", Flavour: "proprietary", Source: "cache", Signer: "ACME (sha256, key 1A:AE)", RootID: "id", RootDir: "/var/lib/nvidia-driver/roots/535", Firmware: true,
			Modules: []Module{{Name: "nvidia", SrcVersion: "ABC", File: "/f", SHA256: "00", Params: []string{"NVreg_A=1"}}},
			InTree:  []string{"ipmi_msghandler"}, Nodes: []devices.Node{{Path: "/dev/nvidia0", Major: 195, Made: true}}},
		Daemons: []daemons.State{{Name: "nvidia-persistenced", PID: 7, Running: true, Ready: true, Restarts: 2, Since: noon}},
		GPUs:    []GPU{{Address: "0000:05:00.0", ID: "10de:1eb8", Name: "Tesla T4", UUID: "GPU-1", Works: true}, {Address: "0000:06:00.0", ID: "10de:1eb8", Reason: "NVRM: no"}},
		Holders: []kmod.Holder{{PID: 4711, Command: "python3", Files: []string{"/dev/nvidia0"}}},
	}
}

func TestStatusFile(t *testing.T) {
	t.Parallel()
	file := Folder(t.TempDir())
	assert.ErrorIsf(t, assert.Err(file.Load()), fs.ErrNotExist, "no file")
	require.NoError(t, file.Save(sample()))
	got, err := file.Load()
	if diff := cmp.Diff(sample(), got); diff != "" || err != nil {
		t.Errorf("%v, %s", err, diff)
	}
	if left, _ := filepath.Glob(filepath.Join(string(file), ".*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if err := errors.Join(file.Remove()); err != nil || !errors.Is(file.Remove(), fs.ErrNotExist) {
		t.Errorf("remove: %v", err)
	}
}

func TestReadStatusRefuses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": "EOF", "{": "unexpected EOF", `{"schema":2}`: "schema 2, this program knows 1", `[]`: "cannot unmarshal", `{}`: "schema 0",
		`{"schema":1,"pid":"x"}`: "cannot unmarshal", `{"schema":1}` + strings.Repeat(" ", 1<<20): "bytes",
	} {
		file := Folder(t.TempDir())
		require.NoError(t, os.WriteFile(filepath.Join(string(file), fileName), []byte(text), 0o600))
		if st, err := file.Load(); err == nil || !strings.Contains(err.Error(), want) || st.Schema != 0 {
			t.Errorf("%.20q: %v, want %q", text, err, want)
		}
	}
}

func FuzzReadStatus(f *testing.F) {
	seed := require.Value(json.Marshal(sample()))(f)
	f.Add(seed)
	f.Add([]byte(`{"schema":1}`))
	file := Folder(f.TempDir())
	f.Fuzz(func(t *testing.T, data []byte) {
		require.NoError(t, os.WriteFile(filepath.Join(string(file), fileName), data, 0o600))
		if st, err := file.Load(); err != nil && st.Schema != 0 {
			t.Error("an error with a status")
		}
	})
}

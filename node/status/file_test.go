package status

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/kmod/kmsg"
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
			Modules: []Module{{Name: "nvidia", SrcVersion: "ABC", File: "/m/nvidia.ko", SHA256: "00", Params: []string{"NVreg_A=1"}}},
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
	assert.Same(t, sample(), require.Value(file.Load())(t))
	assert.Equalf(t, 0, len(require.Value(filepath.Glob(filepath.Join(string(file), ".*")))(t)), "left behind")
	assert.NoError(t, file.Remove())
	assert.ErrorIs(t, file.Remove(), fs.ErrNotExist)
}

func TestReadStatusRefuses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": "EOF", "{": "unexpected EOF", `{"schema":2}`: "schema 2, this program knows 1", `[]`: "cannot unmarshal", `{}`: "schema 0",
		`{"schema":1,"pid":"x"}`: "cannot unmarshal", `{"schema":1}` + strings.Repeat(" ", 1<<20): "bytes",
	} {
		file := Folder(t.TempDir())
		require.NoError(t, os.WriteFile(filepath.Join(string(file), fileName), []byte(text), 0o600))
		if st, err := file.Load(); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "if none does, remove it") || st.Schema != 0 {
			t.Errorf("%.20q: %v, want %q", text, err, want)
		}
	}
}

// TestForgedRecord: no text of a record makes its reader touch what is not NVIDIA's. Each text in turn is
// another one; it is refused, dropped, or only printed.
func TestForgedRecord(t *testing.T) {
	t.Parallel()
	forged := []string{"/dev/null", "/etc", "overlay", "../../etc/x", "/var/lib/roots/../../etc", "\x1b[31m", "\u009b2J", "\u202e", "a\nstate  serving"}
	var walk func(v any, set func(any))
	file := Folder(t.TempDir())
	var all any
	require.NoError(t, json.Unmarshal(require.Value(json.Marshal(sample()))(t), &all))
	walk = func(v any, set func(any)) {
		switch v := v.(type) {
		case string:
			for _, text := range forged {
				set(text)
				require.NoError(t, os.WriteFile(filepath.Join(string(file), fileName), require.Value(json.Marshal(all))(t), 0o600))
				harmless(t, file)
			}
			set(v)
		case []any:
			for i := range v {
				walk(v[i], func(n any) { v[i] = n })
			}
		case map[string]any:
			for key := range v {
				walk(v[key], func(n any) { v[key] = n })
			}
		}
	}
	walk(all, func(any) {})
	for _, n := range []devices.Node{{Path: "/dev/null", Major: 1, Minor: 3}, {Path: "/dev/nvidia0", Major: 1, Minor: 3}, {Path: "/dev/nvidia-caps/../null", Major: 237},
		{Path: "/dev/nvidiactl", Major: 195, Minor: 255, Link: "/dev/char/1:3"}} {
		st := sample()
		st.Up.Nodes = []devices.Node{n}
		require.NoError(t, file.Save(st))
		assert.Errorf(t, assert.Err(file.Load()), "%+v", n)
	}
	st := sample()
	st.Up.InTree = []string{"overlay", "ipmi_msghandler", "br_netfilter"}
	require.NoError(t, file.Save(st))
	assert.Same(t, []string{"ipmi_msghandler"}, require.Value(file.Load())(t).Up.InTree)
}

// harmless reads a record, and checks what the reader will print, remove and unload.
func harmless(t *testing.T, file Folder) {
	t.Helper()
	st, err := file.Load()
	if err != nil {
		if st.Schema != 0 || kmsg.PrintableLines(err.Error()) != err.Error() {
			t.Errorf("%+v, %q", st, err)
		}
		return
	}
	if d := st.Up; d != nil {
		for _, n := range d.Nodes {
			if !strings.HasPrefix(n.Path, "/dev/nvidia") && n.Path != "/dev/gdrdrv" || filepath.Clean(n.Path) != n.Path {
				t.Errorf("device file %+v", n)
			}
		}
		for _, m := range d.Modules {
			assert.Equalf(t, true, strings.HasPrefix(m.Name, "nvidia") || m.Name == "gdrdrv", "module %q", m.Name)
		}
		if i := slices.IndexFunc(d.InTree, func(name string) bool { return !slices.Contains(inTree, name) }); i >= 0 {
			t.Errorf("module %q of the kernel", d.InTree[i])
		}
		assert.Equalf(t, true, d.RootDir == "" || filepath.Base(filepath.Dir(filepath.Clean(d.RootDir))) == "roots", "driver root %q", d.RootDir)
	}
	var out strings.Builder
	require.NoError(t, WriteText(&out, st, string(file), kmod.System{Sys: string(file), Proc: string(file)}, nil))
	text := out.String() + fmt.Sprint(st.Confirm(string(file), kmod.System{Sys: string(file), Proc: string(file)}))
	if kmsg.PrintableLines(text) != text || strings.Count("\n"+text, "\nstate ") != min(1, len(st.State)) {
		t.Errorf("printed: %q", text)
	}
}

// TestNoRegularFile: what is no file where the status should be is not waited for, and is replaced.
func TestNoRegularFile(t *testing.T) {
	t.Parallel()
	elsewhere := testfile.Write(t, filepath.Join(t.TempDir(), "elsewhere"), `{"schema":1}`)
	for name, put := range map[string]func(path string) error{
		"a pipe":                func(path string) error { return unix.Mkfifo(path, 0o600) },
		"a folder":              func(path string) error { return os.Mkdir(path, 0o700) },
		"a folder with content": func(path string) error { return os.MkdirAll(filepath.Join(path, "theirs"), 0o700) },
		"a link":                func(path string) error { return os.Symlink(elsewhere, path) },
		"a link to nothing":     func(path string) error { return os.Symlink("/nowhere", path) },
	} {
		run := t.TempDir()
		require.NoError(t, put(filepath.Join(run, fileName)))
		mine := testfile.Write(t, filepath.Join(run, "instance"), "i\n")
		for _, err := range []error{assert.Err(Read(run)), Mine(run, mine, kmod.System{})} {
			if err == nil || errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), fileName+" cannot be used: it is ") {
				t.Errorf("%s: %v", name, err)
			}
		}
		require.NoError(t, Folder(run).Save(sample()))
		require.NoError(t, Markers{Run: run}.NotReady())
		assert.Equalf(t, Degraded, require.Value(Read(run))(t).State, "%s", name)
	}
	assert.Equal(t, `{"schema":1}`, testfile.Read(t, elsewhere))
}

func FuzzReadStatus(f *testing.F) {
	seed := require.Value(json.Marshal(sample()))(f)
	f.Add(seed)
	f.Add([]byte(`{"schema":1}`))
	f.Add([]byte(`{"schema":1,"state":"failed","reason":"\u001b]0;x\u0007\n\u009b","up":{"inTree":["overlay"],"nodes":[{"path":"/dev/null","major":1,"minor":3,"made":true}]}}`))
	f.Add([]byte(`{"schema":1,"up":{"rootDir":"/a/roots/b","modules":[{"name":"nvidia_fs","file":"/x/nvidia-fs.ko.xz"}]},"gpus":[{"state":"lost"}],"holders":[{"PID":1}]}`))
	file := Folder(f.TempDir())
	f.Fuzz(func(t *testing.T, data []byte) {
		require.NoError(t, os.WriteFile(filepath.Join(string(file), fileName), data, 0o600))
		harmless(t, file)
	})
}

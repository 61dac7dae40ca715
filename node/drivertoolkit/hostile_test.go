package drivertoolkit

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/ci/testkit/kbuildtest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/kmod/kbuild"
)

// forge answers the next request of a pod as the toolkit container does, with the set in modules/<name>.
func (p *pod) forge(change func(*answer)) {
	var r request
	p.wait("the request", func() bool {
		data, err := os.ReadFile(filepath.Join(p.dir, requestFile))
		return err == nil && json.Unmarshal(data, &r) == nil
	})
	a := answer{Schema: schema, Run: r.Run}
	if names, err := os.ReadDir(filepath.Join(p.dir, modulesDir)); err == nil {
		a.Set = names[0].Name()
	}
	if change != nil {
		change(&a)
	}
	f := require.Value(openFolder(p.dir))(p.t)
	defer f.root.Close()
	require.NoError(p.t, put(f, answerFile, a))
}

// spoiled puts a good set into the folder and spoils it; the driver container must not find it earlier.
func (p *pod) spoiled(key func(*kbuild.Key), spoil func(dir string) error) {
	p.t.Helper()
	k := kbuild.Key{Driver: kbuildtest.Driver, Flavour: "proprietary", Release: kbuildtest.Kernel, Arch: "amd64", Kernel: "headers 1", Compiler: "gcc 12.2.0", Method: kbuild.Method}
	if key != nil {
		key(&k)
	}
	set := &kbuild.Set{Key: k, SigHash: "sha256"}
	for _, name := range kbuildtest.Modules[:3] {
		path := testfile.Write(p.t, filepath.Join(p.t.TempDir(), name+".ko"), kbuildtest.Module(strings.ReplaceAll(name, "-", "_"), k.Driver, k.Release))
		sum, size, err := kbuild.Digest(path)
		require.NoError(p.t, err)
		set.Modules = append(set.Modules, kbuild.File{Name: name, Path: path, SHA256: sum, Size: size})
	}
	kept := require.Value(kbuild.Cache{Dir: filepath.Join(p.dir, modulesDir)}.Put(p.t.Context(), set))(p.t)
	if spoil != nil {
		require.NoError(p.t, spoil(kept.Dir))
	}
}

// TestHostile: whatever the folder has, the driver container takes only whole modules of the right
// kernel and driver, reads no file outside of the folder, opens no device, does not hang, and goes on
// without the toolkit.
func TestHostile(t *testing.T) {
	t.Parallel()
	replace := func(create func(path string) error, name string) func(string) error {
		return func(dir string) error {
			path := filepath.Join(dir, name)
			return errors.Join(os.RemoveAll(path), create(path))
		}
	}
	secret := filepath.Join(t.TempDir(), "secret")
	testfile.Write(t, secret, kbuildtest.Module("nvidia", kbuildtest.Driver, kbuildtest.Kernel))
	for name, c := range map[string]struct {
		key    func(*kbuild.Key)
		spoil  func(dir string) error
		answer func(*answer)
		want   string
	}{
		"another kernel":        {func(k *kbuild.Key) { k.Release = "6.1.0-57-amd64" }, nil, nil, "kernel 6.1.0-57-amd64"},
		"another driver":        {func(k *kbuild.Key) { k.Driver = "535.1.1" }, nil, nil, "they are for driver 535.1.1"},
		"a terminal's commands": {func(k *kbuild.Key) { k.Compiler = "gcc\x1b[2J" }, nil, nil, "manifest.json has control characters"},
		"a path":                {nil, nil, func(a *answer) { a.Set = "../../etc" }, `its set "../../etc" is no name`},
		"no set":                {nil, nil, func(a *answer) { a.Set = "x" }, "modules/x: no such file"},
		"changed module": {nil, replace(func(p string) error {
			return os.WriteFile(p, make([]byte, len(kbuildtest.Module("nvidia", kbuildtest.Driver, kbuildtest.Kernel))), 0o600)
		}, "nvidia.ko"), nil, "has changed since it was stored"},
		"longer module":  {nil, func(dir string) error { return os.Truncate(filepath.Join(dir, "nvidia.ko"), 1<<40) }, nil, "they are larger than"},
		"missing module": {nil, func(dir string) error { return os.Remove(filepath.Join(dir, "nvidia-uvm.ko")) }, nil, "it is not complete"},
		"link":           {nil, replace(func(p string) error { return os.Symlink(secret, p) }, "nvidia.ko"), nil, "is no regular file"},
		"pipe":           {nil, replace(func(p string) error { return unix.Mkfifo(p, 0o600) }, "nvidia.ko"), nil, "is no regular file"},
		"linked set": {nil, func(dir string) error {
			return errors.Join(os.Rename(dir, filepath.Join(filepath.Dir(secret), filepath.Base(dir))), os.Symlink(filepath.Join(filepath.Dir(secret), filepath.Base(dir)), dir))
		}, nil, "path escapes from parent"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPod(t, kbuildtest.Kernel, "")
			// What is there before the request is not taken for an earlier set: the folder gets it with the request.
			p.refuse(t, c.want, func() {
				p.spoiled(c.key, c.spoil)
				p.forge(c.answer)
			})
		})
	}
}

// refuse requires that the driver container refuses what it is given after its request.
func (p *pod) refuse(t *testing.T, want string, give func()) {
	t.Helper()
	go func() {
		p.wait("the request", func() bool { return p.has(requestFile) })
		give()
	}()
	begin := time.Now()
	set, err := p.compile(nil)
	if set != nil || !errors.As(err, new(*UnavailableError)) || !strings.Contains(err.Error(), want) || time.Since(begin) > waitLimit/2 {
		t.Errorf("%v after %s, want %s", err, time.Since(begin), want)
	}
}

// replace puts what create makes at a name of the folder in one step: a reader of an empty file would say
// something else.
func (p *pod) replace(name string, create func(path string) error) {
	made := filepath.Join(p.t.TempDir(), "made")
	require.NoError(p.t, create(made))
	require.NoError(p.t, os.Rename(made, filepath.Join(p.dir, name)))
}

// TestHostileAnswer: so is an answer that is no file, is too large, or is of another version.
func TestHostileAnswer(t *testing.T) {
	t.Parallel()
	for want, create := range map[string]func(path string) error{
		"is no regular file":              func(p string) error { return unix.Mkfifo(p, 0o600) },
		"answer.json is no regular":       func(p string) error { return os.Symlink("/etc/passwd", p) },
		"larger than 1048576":             func(p string) error { return errors.Join(os.WriteFile(p, nil, 0o600), os.Truncate(p, 1<<40)) },
		"another version of this program": func(p string) error { return os.WriteFile(p, []byte(`{"schema":3,"new":true}`), 0o600) },
		"unexpected end of JSON":          func(p string) error { return os.WriteFile(p, []byte(`{"schema":4`), 0o600) },
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			p := newPod(t, kbuildtest.Kernel, "")
			p.refuse(t, want, func() { p.replace(answerFile, create) })
		})
	}
}

// TestHostileRequest: the toolkit container waits for a request that it can read, and ends if it is of
// another version.
func TestHostileRequest(t *testing.T) {
	t.Parallel()
	p := newPod(t, kbuildtest.Kernel, "cp KOS/*.ko .")
	require.NoError(t, Invite(p.dir))
	p.replace(requestFile, func(path string) error { return os.WriteFile(path, []byte(`{`), 0o600) })
	p.run()
	p.wait("bad JSON", func() bool {
		return strings.Contains(p.log.String(), "waiting for a request of the driver container: unexpected end")
	})
	require.Value(p.compile(nil))(t)
	p.replace(requestFile, func(path string) error { return os.WriteFile(path, []byte(`{"schema":1}`), 0o600) })
	p.wait("the end", func() bool {
		return strings.Contains(p.log.String(), "it is of another version of this program: this container starts again with that one")
	})
}

func FuzzAnswer(f *testing.F) {
	f.Add([]byte(`{"schema":4,"run":"0123456789abcdef","set":"a"}`))
	f.Add([]byte(`{"schema":4,"run":"0123456789abcdef","reason":"x","failure":{"Jobs":1,"Errors":["a\u0007"],"Tail":["b"],"Err":null}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		a, err := parseAnswer(data)
		if err == nil && (strings.ContainsAny(a.Set, "/\n") || len(a.Reason) > maxText || strings.ContainsAny(a.Reason, "\n\r\x1b")) {
			t.Errorf("accepted %+v", a)
		}
	})
}

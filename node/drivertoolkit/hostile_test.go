package drivertoolkit

import (
	"cmp"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/kbuildtest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/kmod/kbuild"
)

// asked returns the request of the driver container.
func (p *pod) asked() (r request) {
	p.wait("the request", func() bool {
		data, err := os.ReadFile(filepath.Join(p.dir, requestFile))
		return err == nil && json.Unmarshal(data, &r) == nil
	})
	return r
}

// offer puts a whole set into the folder, as the toolkit container does, and returns where it is.
func (p *pod) offer(key func(*kbuild.Key)) string {
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
	return require.Value(kbuild.Cache{Dir: filepath.Join(p.dir, modulesDir)}.Put(p.t.Context(), set))(p.t).Dir
}

// replace puts what create makes at a name of the folder in one step: a reader of an empty file would say
// something else.
func (p *pod) replace(name string, create func(path string) error) {
	made := filepath.Join(p.t.TempDir(), "made")
	require.NoError(p.t, create(made))
	require.NoError(p.t, os.Rename(made, filepath.Join(p.dir, name)))
}

func content(text string) func(string) error {
	return func(path string) error { return os.WriteFile(path, []byte(text), 0o600) }
}

func large(path string) error {
	return errors.Join(content("")(path), os.Truncate(path, 1<<40))
}

func pipe(path string) error { return unix.Mkfifo(path, 0o600) }

// TestHostile: whatever the folder has, the driver container takes only whole modules of the right
// kernel and driver, reads no file outside of the folder, opens no device, does not hang, and goes on
// without the toolkit.
func TestHostile(t *testing.T) {
	t.Parallel()
	module := kbuildtest.Module("nvidia", kbuildtest.Driver, kbuildtest.Kernel)
	outside := t.TempDir()
	secret := testfile.Write(t, filepath.Join(outside, "secret"), module)
	link := func(path string) error { return os.Symlink(secret, path) }
	nvidia := func(create func(path string) error) func(string) error {
		return func(dir string) error {
			path := filepath.Join(dir, "nvidia.ko")
			return errors.Join(os.RemoveAll(path), create(path))
		}
	}
	for name, c := range map[string]struct {
		key    func(*kbuild.Key)
		spoil  func(dir string) error  // the set
		answer string                  // "": a good one
		create func(path string) error // an answer that is no file, or no usual one
		want   string
	}{
		"another kernel":        {key: func(k *kbuild.Key) { k.Release = "6.1.0-57-amd64" }, want: "kernel 6.1.0-57-amd64"},
		"another driver":        {key: func(k *kbuild.Key) { k.Driver = "535.1.1" }, want: "they are for driver 535.1.1"},
		"a terminal's commands": {key: func(k *kbuild.Key) { k.Compiler = "gcc\x1b[2J" }, want: "manifest.json has control characters"},
		"changed module":        {spoil: nvidia(content(strings.Repeat("x", len(module)))), want: "has changed since it was stored"},
		"large module":          {spoil: nvidia(large), want: "has changed since it was stored"},
		"missing module":        {spoil: func(dir string) error { return os.Remove(filepath.Join(dir, "nvidia-uvm.ko")) }, want: "nvidia-uvm.ko: no such file"},
		"link":                  {spoil: nvidia(link), want: "is no regular file"},
		"pipe":                  {spoil: nvidia(pipe), want: "is no regular file"},
		"linked set": {spoil: func(dir string) error {
			return errors.Join(os.Rename(dir, filepath.Join(outside, "set")), os.Symlink(filepath.Join(outside, "set"), dir))
		}, want: "path escapes from parent"},
		"no manifest":     {spoil: func(dir string) error { return content("{}")(filepath.Join(dir, kbuild.ManifestName)) }, want: "does not match its own digest"},
		"a path":          {answer: `{"schema":4,"run":"RUN","set":"../../etc"}`, want: `its set "../../etc" is no name`},
		"no set":          {answer: `{"schema":4,"run":"RUN","set":"x"}`, want: "modules/x/manifest.json: no such file"},
		"piped answer":    {create: pipe, want: "answer.json is no regular file"},
		"linked answer":   {create: link, want: "answer.json is no regular file"},
		"large answer":    {create: large, want: "larger than 4194304"},
		"another version": {answer: `{"schema":3,"new":true}`, want: "another version of this program"},
		"half an answer":  {answer: `{"schema":4`, want: "unexpected end of JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPod(t, kbuildtest.Kernel, "")
			go func() {
				run, dir := p.asked().Run, p.offer(c.key)
				if c.spoil != nil {
					require.NoError(t, c.spoil(dir))
				}
				text := cmp.Or(c.answer, `{"schema":4,"run":"RUN","set":"SET"}`)
				if c.create == nil {
					c.create = content(strings.NewReplacer("RUN", run, "SET", filepath.Base(dir)).Replace(text))
				}
				p.replace(answerFile, c.create)
			}()
			set, err := p.compile(nil)
			if set != nil || !errors.As(err, new(*UnavailableError)) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %s", err, c.want)
			}
		})
	}
}

// TestHostileRequest: the toolkit container waits for a request that it can read, and ends if it is of
// another version.
func TestHostileRequest(t *testing.T) {
	t.Parallel()
	p := newPod(t, kbuildtest.Kernel, "cp KOS/*.ko .")
	require.NoError(t, Invite(p.dir))
	p.replace(requestFile, content("{"))
	_, ended := p.run()
	p.wait("bad JSON", func() bool {
		return strings.Contains(p.log.String(), "waiting for a request of the driver container: unexpected end")
	})
	require.Value(p.compile(nil))(t)
	p.replace(requestFile, content(`{"schema":1}`))
	assert.ErrorContains(t, ended(), "it is of another version of this program: this container starts again with that one")
}

func FuzzAnswer(f *testing.F) {
	f.Add([]byte(`{"schema":4,"run":"0123456789abcdef","set":"a"}`))
	f.Add([]byte(`{"schema":4,"run":"0123456789abcdef","reason":"x","failure":{"Jobs":1,"Errors":["a\u0007"],"Tail":["b"]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var a answer
		if json.Unmarshal(data, &a) == nil && a.check() == nil &&
			(strings.ContainsAny(a.Set, "/\n") || len(a.Reason) > maxText || strings.ContainsAny(a.Reason, "\n\r\x1b")) {
			t.Errorf("accepted %+v", a)
		}
	})
}

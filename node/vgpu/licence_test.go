package vgpu

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/logtest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/node/daemons"
	"github.com/driver-container/driver-container/node/probe"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// token returns a token with these claims.
func token(claims string) string {
	part := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	return part(`{"alg":"RS256","typ":"JWT"}`) + "." + part(claims) + "." + part("signature") + "\n"
}

func until(at time.Time) string { return token(fmt.Sprintf(`{"exp":%d,"secret":"hush"}`, at.Unix())) }

// site makes a root with settings; the names of files begin with root/ or drivers/.
func site(t *testing.T, files map[string]string) Facts {
	t.Helper()
	dir := testfile.Tree(t, t.TempDir(), files)
	return Facts{Root: filepath.Join(dir, "root"), Drivers: filepath.Join(dir, "drivers"), Now: func() time.Time { return now }}
}

// TestLicence: what the files say, without their content.
func TestLicence(t *testing.T) {
	t.Parallel()
	const conf, tok = "drivers/gridd.conf", "drivers/ClientConfigToken/"
	for name, c := range map[string]struct {
		files      map[string]string
		says, note string
		err        string
	}{
		"nothing":            {says: "no token and no gridd.conf"},
		"settings":           {files: map[string]string{conf: "# x\nFeatureType=1\nServerAddress=10.0.0.1\n"}, says: "no token"},
		"a token":            {files: map[string]string{tok + "a.tok": until(now.Add(time.Hour))}, says: "1 token(s), until 2026-01-02T04:04:05Z"},
		"a token, no end":    {files: map[string]string{tok + "a.tok": token("{}"), tok + "b.tok": until(now.Add(time.Hour))}, says: "2 token(s), without an end"},
		"expired":            {files: map[string]string{tok + "a.tok": until(now.Add(-time.Hour))}, says: "until 2026-01-02T02:04:05Z", note: "a.tok expired on 2026-01-02T02:04:05Z: download a new one"},
		"expires now":        {files: map[string]string{tok + "a.tok": until(now)}, says: "1 token(s)", note: "expired on"},
		"not yet":            {files: map[string]string{tok + "a.tok": token(fmt.Sprintf(`{"nbf":%d}`, now.Add(time.Hour).Unix()))}, says: "1 token(s)", note: "is the clock of this machine right?"},
		"another name":       {files: map[string]string{tok + "a.txt": "x", tok + "..data": "x"}, says: "no token", note: "a.txt is passed over"},
		"a wrong file":       {files: map[string]string{tok + "a.tok": "<html>hush</html>"}, err: "a.tok: not a client configuration token"},
		"cut off":            {files: map[string]string{tok + "a.tok": until(now)[:40]}, err: "three parts"},
		"no claims":          {files: map[string]string{tok + "a.tok": "eyJhbGciOiJub25lIn0.eA.eA"}, err: "is no list of claims"},
		"no algorithm":       {files: map[string]string{tok + "a.tok": "e30.e30.eA"}, err: "names no algorithm"},
		"a time of words":    {files: map[string]string{tok + "a.tok": token(`{"exp":"never"}`)}, err: "is no list of claims"},
		"a time far off":     {files: map[string]string{tok + "a.tok": token(`{"exp":1e300}`)}, err: "out of range"},
		"empty":              {files: map[string]string{tok + "a.tok": ""}, err: "three parts"},
		"huge":               {files: map[string]string{tok + "a.tok": strings.Repeat("x", maxToken+1)}, err: "larger than 65536 bytes"},
		"settings huge":      {files: map[string]string{conf: strings.Repeat("#", maxSettings+1)}, err: "larger than"},
		"settings binary":    {files: map[string]string{conf: "\x00"}, err: "it is no text"},
		"settings of words":  {files: map[string]string{conf: "please license me\n"}, err: "line 1 is neither NAME=VALUE nor a comment"},
		"settings, feature":  {files: map[string]string{conf: "FeatureType=7\n"}, err: "FeatureType is \"7\"; it must be 0"},
		"settings, a folder": {files: map[string]string{conf + "/x": ""}, err: "read the licence settings"},
	} {
		l, err := site(t, c.files).Licence()
		if c.err != "" {
			assert.ErrorContainsf(t, err, c.err, "%s", name)
			assert.Equalf(t, false, strings.Contains(err.Error(), "hush"), "%s: the message has the token's content: %v", name, err)
			continue
		}
		assert.NoErrorf(t, err, "%s", name)
		assert.Containsf(t, l.String(), c.says, "%s", name)
		assert.Containsf(t, strings.Join(l.Notes, "; "), c.note, "%s", name)
		assert.Equalf(t, c.note == "", len(l.Notes) == 0, "%s: %s", name, l.Notes)
	}
	many := map[string]string{}
	for i := range maxTokens + 1 {
		many[fmt.Sprintf("%s%d.tok", tok, i)] = ""
	}
	_, err := site(t, many).Licence()
	assert.ErrorContains(t, err, "has 65 files, at most 64 are read")
}

// TestModes: nvidia-gridd gets tokens with the mode that NVIDIA asks for, whatever the mount has; a token
// that others can change is reported.
func TestModes(t *testing.T) {
	t.Parallel()
	f := site(t, map[string]string{"drivers/ClientConfigToken/a.tok": until(now.Add(time.Hour)), "drivers/gridd.conf": "FeatureType=1\n",
		"root/etc/nvidia/ClientConfigToken/old.tok": "x", "root/etc/nvidia/ClientConfigToken/readme": "x"})
	for _, mode := range []os.FileMode{0o400, 0o600, 0o644, 0o777} {
		require.NoError(t, os.Chmod(filepath.Join(f.Drivers, "ClientConfigToken/a.tok"), mode))
		l := require.Value(f.Licence())(t)
		assert.Equalf(t, mode == 0o777, strings.Contains(strings.Join(l.Notes, ";"), "can be changed by others than its owner (mode 0777)"), "%04o: %s", mode, l.Notes)
		require.NoError(t, f.install(l))
		for name, want := range map[string]os.FileMode{tokensDir + "/a.tok": 0o744, settingsFile: 0o644} {
			assert.Equalf(t, want, require.Value(os.Stat(f.path(name)))(t).Mode().Perm(), "%s", name)
		}
	}
	for name, there := range map[string]bool{"old.tok": false, "readme": true, "a.tok": true} {
		_, err := os.Stat(f.path(tokensDir + "/" + name))
		assert.Equalf(t, there, err == nil, "%s", name)
	}
}

// FuzzToken: no file makes the reader fail in another way, and its messages do not have the file's content.
func FuzzToken(f *testing.F) {
	f.Add([]byte(until(now)))
	f.Add([]byte("a.b.c"))
	f.Fuzz(func(t *testing.T, data []byte) {
		from, until, err := tokenTimes(data)
		if err != nil && (!errors.Is(err, ErrToken) || !from.IsZero() || !until.IsZero()) {
			t.Errorf("%s, %s, %v", from, until, err)
		}
	})
}

// TestCheck: the answers before a start, for images and files of a licence.
func TestCheck(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		licence, token string
		fatal          bool
		says, fix      string
	}{
		"a driver of whole GPUs": {token: "hush", says: "no driver for vGPUs"},
		"an expired token":       {driverinfo.VGPUNVIDIA, until(now.Add(-time.Hour)), false, "expired on", "become slow"},
		"a wrong token":          {driverinfo.VGPUNVIDIA, "hush", true, "not a client configuration token", "vgpu.licensing.secretName"},
		"a good token":           {driverinfo.VGPUNVIDIA, until(now.Add(time.Hour)), false, "licence: 1 token(s), until", ""},
	} {
		text, fix, fatal := site(t, map[string]string{"drivers/ClientConfigToken/a.tok": c.token}).Check(c.licence)
		assert.Equalf(t, c.fatal, fatal, "%s: %s", name, text)
		assert.Containsf(t, text, c.says, "%s", name)
		assert.Equalf(t, c.fix != "", strings.Contains(fix, c.fix) && fix != "", "%s: %s", name, fix)
		assert.Equalf(t, false, strings.Contains(text, "hush"), "%s: the content of a token", name)
	}
}

func TestUnlicensed(t *testing.T) {
	t.Parallel()
	gpus := []probe.Device{{PCI: "1"}, {PCI: "2", Licence: &probe.Licence{Licensed: true}}, {PCI: "3", Licence: &probe.Licence{Error: "x"}}}
	assert.Equal(t, "", Unlicensed(gpus))
	gpus = append(gpus, probe.Device{PCI: "4", Licence: &probe.Licence{}}, probe.Device{PCI: "5", Licence: &probe.Licence{}})
	assert.Contains(t, Unlicensed(gpus), "vGPU without a licence: 4, 5; it becomes slow")
}

const asChild = "VGPU_TEST_CHILD"

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "nvidia-gridd" {
		os.Exit(gridd())
	}
	os.Exit(m.Run())
}

// gridd is a strict stand-in for nvidia-gridd: it forks, and ends at once if a file or its environment is not
// as NVIDIA's documents say.
func gridd() int {
	root := filepath.Dir(filepath.Dir(filepath.Dir(os.Args[0])))
	if os.Getenv(asChild) != "" {
		stop := make(chan os.Signal, 1)
		signal.Notify(stop, syscall.SIGTERM)
		select {
		case <-stop:
		case <-time.After(10 * time.Minute):
		}
		return 0
	}
	if err := griddStart(root); err != nil {
		fmt.Println("nvidia-gridd:", err)
		return 1
	}
	return 0
}

func griddStart(root string) error {
	if want := filepath.Join(root, "usr/lib64/nvidia/gridd"); os.Getenv("LD_LIBRARY_PATH") != want {
		return fmt.Errorf("LD_LIBRARY_PATH is %q, not %q", os.Getenv("LD_LIBRARY_PATH"), want)
	}
	if len(os.Args) != 1 {
		return fmt.Errorf("arguments %q", os.Args[1:])
	}
	for name, mode := range map[string]os.FileMode{settingsFile: 0o644, tokensDir + "/client.tok": 0o744, "var/lib/nvidia/GridLicensing": os.ModeDir | 0o755} {
		st, err := os.Stat(filepath.Join(root, name))
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if st.Mode() != mode {
			return fmt.Errorf("%s has mode %s, not %s", name, st.Mode(), mode)
		}
	}
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), asChild+"=1")
	child.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // as every daemon: the group of the program is killed when that ends
	if err := child.Start(); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(root, "var/run/nvidia-gridd/nvidia-gridd.pid"), []byte(strconv.Itoa(child.Process.Pid)+"\n"), 0o644)
}

// griddSite is a site whose image has the stand-in.
func griddSite(t *testing.T, files map[string]string) Facts {
	t.Helper()
	files["root/usr/lib64/nvidia/gridd/libgrid.so.1"] = ""
	f := site(t, files)
	require.NoError(t, os.MkdirAll(f.path("usr/bin"), 0o755))
	testfile.WriteMode(t, f.path(griddProgram), testfile.Read(t, require.Value(os.Executable())(t)), 0o755)
	return f
}

// TestDaemons: nvidia-gridd starts with its libraries, its settings and a token whose mode is mended; its
// state says until when the token is valid, and a stop ends it.
func TestDaemons(t *testing.T) {
	t.Parallel()
	f := griddSite(t, map[string]string{"drivers/gridd.conf": "FeatureType=1\n", "drivers/ClientConfigToken/client.tok": until(now.Add(time.Hour))})
	require.NoError(t, os.Chmod(filepath.Join(f.Drivers, "ClientConfigToken/client.tok"), 0o400))
	specs := Daemons(f)
	s, err := daemons.Start(t.Context(), logtest.New(t), specs...)
	require.NoError(t, err)
	states := s.States()
	if len(states) != 1 || !states[0].Ready || states[0].Name != "nvidia-gridd" || states[0].Detail != "1 token(s), until 2026-01-02T04:04:05Z" {
		t.Errorf("%+v", states)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 2*time.Minute)
	defer cancel()
	assert.NoError(t, s.Stop(ctx))
	assert.Equal(t, 0, len(s.PIDs()))
}

// TestDaemonsRefused: a wrong file in the place of the token is said before the program starts.
func TestDaemonsRefused(t *testing.T) {
	t.Parallel()
	f := griddSite(t, map[string]string{"drivers/gridd.conf": "FeatureType=1\n", "drivers/ClientConfigToken/client.tok": "hush"})
	_, err := daemons.Start(t.Context(), logtest.New(t), Daemons(f)...)
	assert.ErrorContains(t, err, "start nvidia-gridd", "client.tok: not a client configuration token")
	f = griddSite(t, map[string]string{"drivers/gridd.conf": "FeatureType=1\n"})
	_, err = daemons.Start(t.Context(), logtest.New(t), Daemons(f)...)
	assert.ErrorContains(t, err, "client.tok: stat") // the stand-in's own words
	assert.Equalf(t, 0, len(Daemons(site(t, nil))), "an image without the programs has")
}

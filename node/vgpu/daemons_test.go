package vgpu

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/logtest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/node/daemons"
)

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
	if got := Daemons(site(t, nil)); len(got) != 0 {
		t.Errorf("an image without the programs has %+v", got)
	}
}

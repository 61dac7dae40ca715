package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/tool"
	"github.com/driver-container/driver-container/node/cli"
	"github.com/driver-container/driver-container/node/config"
	"github.com/driver-container/driver-container/node/host"
	"github.com/driver-container/driver-container/node/lock"
	"github.com/driver-container/driver-container/node/status"
)

// The child that unloads a module is no verb, and does nothing but that.
func TestDeleteModule(t *testing.T) {
	t.Parallel()
	var stderr bytes.Buffer
	for _, argv := range [][]string{{"x"}, {"x", "init"}, {"x", host.DeleteVerb}, {"x", host.DeleteVerb, "a", "b"}} {
		if code, ok := deleteModule(argv, &stderr); ok {
			t.Errorf("%q: %d", argv, code)
		}
	}
	tool.AsRoot(t, "for delete_module")
	code, ok := deleteModule([]string{"x", host.DeleteVerb, "no_such_module_here"}, &stderr)
	if !ok || code != host.DeleteAbsent && code != exitFailure { // a container may not unload at all
		t.Errorf("code %d, %v, %s", code, ok, stderr.String())
	}
}

func TestRest(t *testing.T) {
	t.Parallel()
	c := config.Defaults()
	complete(&c, []string{"OPEN_KERNEL_MODULES_ENABLED=true", "DRIVER_TYPE=vgpu", "NVFM_CONFIG_A=1", "NVFM_CONFIG_B=x=y", "OTHER=1"})
	if c.ModuleType != "open" || !c.VGPU || len(c.FabricSettings) != 2 || c.FabricSettings["B"] != "x=y" || c.Host == "" {
		t.Errorf("%+v", c)
	}
	assert.Equalf(t, true, c.SigningPassphrase == nil, "a passphrase from nowhere")
	complete(&c, []string{config.Passphrase + "= secret "})
	assert.Equal(t, " secret ", string(require.Value(c.SigningPassphrase())(t)))
	c = config.Defaults()
	c.ModuleType, c.Host = "proprietary", "n1"
	if complete(&c, []string{"OPEN_KERNEL_MODULES_ENABLED=true"}); c.ModuleType != "proprietary" || c.Host != "n1" {
		t.Errorf("a flag counts more: %+v", c)
	}
	assert.Equal(t, "2", cli.Lookup([]string{"A=1", "AB=3", "A=2"}, "A"))
}

// The first signal ends the service, the second one stopCtx.
func TestSecondSignal(t *testing.T) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGQUIT)
	defer signal.Stop(signals)
	ctx, stopCtx, listen := signalContexts(signals)
	go listen()
	send := func() {
		require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGQUIT))
	}
	ends := func(what string, ctx context.Context) {
		select {
		case <-ctx.Done():
		case <-time.After(time.Minute):
			t.Errorf("%s signal is not heard", what)
		}
	}
	send()
	ends("the first", ctx)
	select {
	case <-stopCtx.Done():
		t.Error("one signal is enough")
	case <-time.After(100 * time.Millisecond):
	}
	send()
	ends("the second", stopCtx)
}

// Probes and status of a node whose files say that its driver serves.
func TestProbes(t *testing.T) {
	t.Parallel()
	run1 := func(want int, text string, args ...string) {
		t.Helper()
		var stdout, stderr bytes.Buffer
		if code := run(append([]string{"nvidia-driver"}, args...), nil, true, nil, &stdout, &stderr); code != want || !strings.Contains(stdout.String()+stderr.String(), text) {
			t.Errorf("%q: %d\n%s%s", args, code, stdout.String(), stderr.String())
		}
	}
	dir := t.TempDir()
	st, err := json.Marshal(status.Snapshot{Schema: status.Schema, State: status.Serving, Ready: true, PID: os.Getpid(), Kernel: "6.1.0-1-amd64"})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "driver-status.json"), st, 0o600))
	// The process that wrote it was killed: it holds no lock.
	run1(0, "was killed", "status", "--run-dir", dir)
	run1(0, `"ready": false`, "status", "-o", "json", "--run-dir", dir)
	run1(exitNotReady, "was killed", "wait-ready", "--timeout", "1ms", "--run-dir", dir)
	l := require.Value(lock.Acquire(t.Context(), lock.Options{Run: dir}))(t)
	run1(0, "6.1.0-1-amd64", "status", "--run-dir", dir)
	run1(0, `"ready": true`, "status", "-o", "json", "--run-dir", dir)
	run1(0, "", "wait-ready", "--run-dir", dir)
	require.NoError(t, l.Release())
	run1(0, "", "probe_nvidia_peermem")
	run1(0, "nobody that is visible here has the driver's devices open", "holders")
	run1(0, "", "holders", "-o", "json")
	run1(exitUsage, "driver-build made", "preflight", "--run-dir", dir)
	run1(exitUsage, "driver-build made", "compile", "--run-dir", dir)
	run1(exitUsage, "driver-build made", "init", "--accept-license", "--run-dir", dir)
	run1(exitUsage, "driver-build made", "--accept-license", "--run-dir", dir)
	run1(exitUsage, "driver-build made", "reload_nvidia_peermem", "--run-dir", dir)
	archive := filepath.Join(dir, "support.tar")
	run1(exitFailure, "the archive is not complete: preflight.txt: ", "support", archive, "--run-dir", dir)
	listed := require.Value(exec.Command("tar", "-tf", archive).Output())(t)
	for _, name := range []string{"status.txt", "status.json", "holders.txt", "pci.txt", "mounts.txt", "left-out.txt"} {
		assert.Contains(t, string(listed), "nvidia-driver/"+name+"\n")
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "driver-status.json"), []byte("{"), 0o600))
	const remedy = "driver-status.json cannot be used: unexpected EOF; a driver container replaces it when it starts; if none does, remove it"
	run1(exitFailure, remedy, "status", "--run-dir", dir)
	run1(exitNotReady, remedy, "wait-ready", "--timeout", "1ms", "--run-dir", dir)
	require.NoError(t, os.Remove(filepath.Join(dir, "driver-status.json")))
	run1(exitNotReady, "was stopped, and took its driver down", "wait-ready", "--timeout", "1ms", "--run-dir", dir)
	run1(0, "was stopped, and took its driver down", "status", "--run-dir", dir)
}

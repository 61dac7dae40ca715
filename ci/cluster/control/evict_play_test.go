package control_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/tool"
	"github.com/driver-container/driver-container/node/status"
)

// status writes the driver's status file.
func (e *site) status(pod string, state status.State, phase string) {
	e.t.Helper()
	st := status.Snapshot{Schema: status.Schema, Pod: pod, State: state, Phase: phase, Ready: state == status.Serving, Wanted: "535.261.03",
		Instance: "of " + pod, Up: &status.Driver{Version: "470.256.02"}}
	if st.Ready {
		st.Up.Version = st.Wanted
	}
	data, err := json.Marshal(st)
	tmp := filepath.Join(e.run, ".status.tmp")
	err = errors.Join(err, os.WriteFile(tmp, data, 0o644), os.Rename(tmp, filepath.Join(e.run, "driver-status.json")))
	if err != nil && e.t.Context().Err() == nil {
		e.t.Error(err)
	}
}

// driver simulates the driver of a pod: it asks for a free node, waits, and comes up. The returned function
// ends it and waits for its end.
func (e *site) driver(pod *corev1.Pod) (end func()) {
	e.t.Helper()
	ctx, cancel := context.WithCancel(e.t.Context())
	var done sync.WaitGroup
	done.Go(func() {
		e.status(pod.Name, status.Waiting, "replace")
		assert.NoError(e.t, e.annotate(pod.Name))
		for n := e.node(); n.Annotations[status.SafeLoadAnnotation] == pod.Name; n = e.node() {
			if !sleep(ctx, 300*time.Millisecond) {
				return
			}
		}
		pods, err := e.pods()
		assert.NoError(e.t, err)
		for _, p := range pods {
			if app := p.Labels["app"]; app == "plugin" || app == "train-"+e.name {
				e.t.Errorf("the driver was let go on while %s/%s runs on %s", p.Namespace, p.Name, e.name)
			}
		}
		for _, phase := range []string{"load", "verify"} {
			e.status(pod.Name, status.Starting, phase)
			if !sleep(ctx, time.Second) {
				return
			}
		}
		e.status(pod.Name, status.Serving, "")
	})
	return sync.OnceFunc(func() { cancel(); done.Wait() })
}

func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// start runs driver-evict, until the test ends, as the chart's container of a pod does, with a token that is bound to that pod.
func (e *site) start(pod *corev1.Pod) {
	e.t.Helper()
	token := e.Kubectl("create", "token", e.account, "-n", space, "--bound-object-kind=Pod", "--bound-object-name="+pod.Name, "--bound-object-uid="+string(pod.UID))
	server, dir := e.Account(token, space)
	var log tool.Buffer
	done, cmd := make(chan error, 1), exec.Command(e.binary, "--server", server, "--service-account-dir", dir, "--run-dir", e.run)
	cmd.Args[0] = "/usr/bin/driver-evict" // the link to e.binary
	cmd.Env = chartEnv(e.t, pod)
	cmd.Stdout, cmd.Stderr = &log, &log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(e.t, cmd.Start())
	go func() { done <- cmd.Wait() }()
	e.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case err := <-done:
			assert.NoErrorf(e.t, err, "after SIGTERM")
		case <-time.After(30 * time.Second): // the kubelet's grace period
			e.t.Error("it does not stop")
			_ = cmd.Process.Kill()
		}
		if e.t.Failed() {
			e.t.Logf("driver-evict of %s said:\n%s", pod.Name, log.String())
		}
	})
}

// chartEnv returns the environment that the kubelet would make for the pod's container.
func chartEnv(t *testing.T, pod *corev1.Pod) []string {
	t.Helper()
	fields := map[string]string{"spec.nodeName": pod.Spec.NodeName, "metadata.name": pod.Name, "metadata.namespace": pod.Namespace, "metadata.uid": string(pod.UID)}
	for _, c := range pod.Spec.InitContainers {
		if c.Name != "driver-evict" || strings.Join(c.Command, " ") != "/usr/bin/driver-evict" {
			continue
		}
		var env []string
		for _, v := range c.Env {
			value := v.Value
			if v.ValueFrom != nil && v.ValueFrom.FieldRef != nil {
				value = fields[v.ValueFrom.FieldRef.FieldPath]
			}
			env = append(env, v.Name+"="+value)
		}
		return env
	}
	t.Fatalf("pod %s has no init container driver-evict that starts /usr/bin/driver-evict", pod.Name)
	return nil
}

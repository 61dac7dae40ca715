package buildkit

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/tool"
	"github.com/driver-container/driver-container/images/runner"
)

func TestAddresses(t *testing.T) {
	t.Parallel()
	for _, address := range []string{
		"unix:///run/buildkit/buildkitd.sock", "tcp://builder:1234", "tcp://[::1]:1234", "docker-container://buildkitd?context=far",
		"podman-container://buildkitd", "nerdctl-container://buildkitd?namespace=k8s.io", "kube-pod://buildkitd-0?namespace=ci&container=buildkit",
		"kube-pod://b?context=arn:aws:eks:eu-west-1:1234:cluster/ci", "kube-pod://b?context=a%20b", "ssh://me@builder:22/run/buildkit/buildkitd.sock", "ssh://[::1]",
	} {
		_, _, err := parse(address)
		assert.NoErrorf(t, err, "%s", address)
	}
	for _, address := range []string{"", "/run/buildkit.sock", "https://builder:1234"} {
		assert.ErrorContains(t, Check(t.Context(), address, TLS{}), "no known form: use docker-container://NAME?context=CONTEXT, kube-pod://POD")
	}
	for _, address := range []string{
		"unix://run/buildkit.sock", "unix://", "tcp://builder", "tcp://:1234", "tcp://builder:12%34", "kube-pod://", "kube-pod://-x",
		"kube-pod://Buildkitd", "kube-pod://x?namespace=-A", "kube-pod://x?namespace=", "kube-pod://x?context=--as%3Droot", "kube-pod://x?context=a%26namespace=-A",
		"kube-pod://x?context=a%0ab", "kube-pod://x?containers=b", "kube-pod://x?a=%zz", "kube-pod://ci/x", "kube-pod://x:1234", "kube-pod://me@x", "kube-pod://x#y",
		"docker-container://--privileged", "docker-container://x?context=-D", "podman-container://x?context=y", "podman-container://-l", "nerdctl-container://--root",
		"ssh://-oProxyCommand=x", "ssh://-oProxyCommand@x", "ssh://me:word@x", "ssh://x/a;reboot", "ssh://x/$(reboot)", "ssh://x/%24(reboot)", "ssh://x?a=b",
	} {
		scheme, _, _ := strings.Cut(address, ":")
		assert.ErrorContainsf(t, Check(t.Context(), address, TLS{}), "is not of the form "+forms[scheme].usual, "%s", address)
	}
}

func TestTLSFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"ca.pem", "cert.pem", "key.pem"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	got, err := TLS{Dir: dir, ServerName: "x"}.resolve()
	want := TLS{CA: dir + "/ca.pem", Cert: dir + "/cert.pem", Key: dir + "/key.pem", ServerName: "x", Dir: dir}
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, d)
	}
	for _, bad := range []TLS{{Dir: dir, CA: "x"}, {Cert: "x"}, {Key: "x"}, {Dir: t.TempDir()}} {
		assert.Errorf(t, assert.Err(bad.resolve()), "%+v was accepted", bad)
	}
	require.NoError(t, unix.Mkfifo(dir+"/pipe", 0o600))
	for _, bad := range []TLS{{CA: dir + "/none"}, {CA: dir + "/ca.pem"}, {CA: dir + "/pipe"}, {Cert: dir + "/cert.pem", Key: dir + "/key.pem"}} {
		if err := Check(t.Context(), "tcp://127.0.0.1:1", bad); err == nil || errors.Is(err, runner.ErrUnavailable) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

// TestUnreachable: the error when nothing, or another server, is at an address.
func TestUnreachable(t *testing.T) {
	noLeaks(t)
	closed := tool.UnusedAddress(t)
	for address, says := range map[string]string{
		"unix://" + t.TempDir() + "/none": "start buildkitd",
		"tcp://" + closed:                 "start buildkitd",
	} {
		begin := time.Now()
		err := reachable(t.Context(), address)
		if !errors.Is(err, runner.ErrUnavailable) || !strings.Contains(err.Error(), address) || !strings.Contains(err.Error(), says) {
			t.Errorf("%v", err)
		}
		if d := time.Since(begin); d > 30*time.Second {
			t.Errorf("%s: it took %v", address, d)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	because := errors.New("because")
	cancel(because)
	assert.ErrorIsf(t, reachable(ctx, "unix:///none"), because, "cancelled")
}

func TestDefaults(t *testing.T) {
	t.Setenv("BUILDKIT_HOST", "tcp://x")
	assert.ErrorContains(t, reachable(t.Context(), ""), "of the form tcp://HOST:PORT")
	for _, name := range []string{"CACERT", "CERT", "KEY", "SERVERNAME", "DIR"} {
		t.Setenv("BUILDKIT_TLS_"+name, strings.ToLower(name))
	}
	assert.Same(t, TLS{CA: "cacert", Cert: "cert", Key: "key", ServerName: "servername", Dir: "dir"}, DefaultTLS())
}

// reachable connects to one daemon and closes the connection.
func reachable(ctx context.Context, address string) error {
	p, err := New(ctx, Options{Address: address, TLS: DefaultTLS()})
	if err != nil {
		return err
	}
	return p.Close()
}

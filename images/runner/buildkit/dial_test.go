package buildkit

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/require"
	"github.com/driver-container/driver-container/images/runner"
)

func TestAddresses(t *testing.T) {
	t.Parallel()
	for address, says := range map[string]string{
		"unix:///run/buildkit/buildkitd.sock":                    "",
		"tcp://builder:1234":                                     "",
		"tcp://[::1]:1234":                                       "",
		"docker-container://buildkitd?context=far":               "",
		"podman-container://buildkitd":                           "",
		"nerdctl-container://buildkitd":                          "",
		"kube-pod://buildkitd-0?namespace=ci&container=buildkit": "",
		"ssh://me@builder:22/run/buildkit/buildkitd.sock":        "",
		"":                           "no known form",
		"/run/buildkit.sock":         "no known form",
		"https://builder:1234":       "no known form",
		"npipe:////./pipe/buildkitd": "no known form",
		"unix://run/buildkit.sock":   "no absolute path",
		"unix://":                    "no absolute path",
		"tcp://builder":              "no port",
		"tcp://:1234":                "has no name",
		"kube-pod://":                "has no name",
		"tcp://builder:12%34":        "cannot be read",
	} {
		_, _, err := checkAddress(address)
		if says == "" != (err == nil) || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("checkAddress(%q) = %v, want %q", address, err, says)
		}
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
	if _, err := New(t.Context(), Options{Addresses: []string{"tcp://127.0.0.1:1"}, TLS: TLS{CA: dir + "/none"}}); err == nil || errors.Is(err, runner.ErrUnavailable) {
		t.Errorf("a CA that is not there: %v", err)
	}
}

// TestUnreachable: the error when nothing, or another server, is at an address.
func TestUnreachable(t *testing.T) {
	noLeaks(t)
	l := require.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	closed := l.Addr().String()
	l.Close()
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
	t.Setenv("BUILDKIT_HOST", "")
	assert.Equal(t, "unix:///run/buildkit/buildkitd.sock", DefaultAddress())
	t.Setenv("BUILDKIT_HOST", "tcp://x:1")
	assert.Equal(t, "tcp://x:1", DefaultAddress())
	for _, name := range []string{"CACERT", "CERT", "KEY", "SERVERNAME", "DIR"} {
		t.Setenv("BUILDKIT_TLS_"+name, strings.ToLower(name))
	}
	assert.Same(t, TLS{CA: "cacert", Cert: "cert", Key: "key", ServerName: "servername", Dir: "dir"}, DefaultTLS())
}

// reachable connects to one daemon and closes the connection.
func reachable(ctx context.Context, address string) error {
	p, err := New(ctx, Options{Addresses: []string{address}, TLS: DefaultTLS()})
	if err != nil {
		return err
	}
	return p.Close()
}

// TestChoose: a step runs on the first daemon whose machine has its architecture, else where it is emulated.
func TestChoose(t *testing.T) {
	t.Parallel()
	d := &Daemons{all: []*daemon{{address: "a", platforms: []string{"linux/amd64", "linux/arm64"}}, {address: "b", platforms: []string{"linux/arm64"}}, {address: "c", platforms: []string{"linux/amd64"}}}}
	for arch, want := range map[string]string{"amd64": "a", "arm64": "b"} {
		if one, err := d.choose(runner.Step{Arch: arch}); err != nil || one.address != want {
			t.Errorf("%s: %v, %v", arch, one, err)
		}
	}
	d.all = d.all[:1]
	assert.Equal(t, "a", require.Value(d.choose(runner.Step{Arch: "arm64"}))(t).address)
	err := assert.Err(d.choose(runner.Step{Arch: "riscv64"}))
	assert.ErrorIs(t, err, runner.ErrUnavailable)
	assert.ErrorContains(t, err, "a runs linux/amd64, linux/arm64 only: add a daemon on a machine of linux/riscv64")
}

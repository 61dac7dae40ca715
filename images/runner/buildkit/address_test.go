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
		"unix:///run/buildkit/buildkitd.sock":                        "",
		"tcp://builder:1234":                                         "",
		"tcp://[::1]:1234":                                           "",
		"docker-container://buildkitd?context=far":                   "",
		"podman-container://buildkitd":                               "",
		"nerdctl-container://buildkitd":                              "",
		"kube-pod://buildkitd-0?namespace=ci&container=buildkit":     "",
		"kube-pod://b?context=arn:aws:eks:eu-west-1:1234:cluster/ci": "",
		"ssh://me@builder:22/run/buildkit/buildkitd.sock":            "",
		"":                                     "no known form",
		"/run/buildkit.sock":                   "no known form",
		"https://builder:1234":                 "no known form",
		"unix://run/buildkit.sock":             "no absolute path",
		"unix://":                              "no absolute path",
		"tcp://builder":                        "no port",
		"tcp://:1234":                          "has no name",
		"kube-pod://":                          "has no name",
		"tcp://builder:12%34":                  "cannot be read",
		"kube-pod://-x":                        "no name for kubectl",
		"kube-pod://Buildkitd":                 "no name for kubectl",
		"kube-pod://x?namespace=-A":            "no namespace for kubectl",
		"kube-pod://x?namespace=":              "no namespace for kubectl",
		"kube-pod://x?context=--as%3Droot":     "no context for kubectl",
		"kube-pod://x?context=a%0ab":           "no context for kubectl",
		"kube-pod://x?containers=b":            `parameter "containers" is not known: kube-pod:// has context, namespace, container`,
		"kube-pod://x?container=a&container=b": "parameter container is given twice",
		"kube-pod://x?a=%zz":                   "cannot be read",
		"kube-pod://ci/x":                      "has no path: write kube-pod://POD?namespace=NAMESPACE",
		"kube-pod://x:1234":                    "needs no port",
		"kube-pod://me@x":                      "no user for kubectl",
		"kube-pod://x#y":                       "has no meaning",
		"docker-container://--privileged":      "no name for docker",
		"docker-container://x?context=-D":      "no context for docker",
		"podman-container://x?context=y":       "takes nothing after",
		"podman-container://-l":                "no name for podman",
		"nerdctl-container://--root":           "no name for nerdctl",
		"ssh://-oProxyCommand=x":               "no name for ssh",
		"ssh://-oProxyCommand@x":               "no user for ssh",
		"ssh://me:word@x":                      "a password does not belong into an address",
		"ssh://x/a;reboot":                     "no path of a socket",
		"ssh://x/$(reboot)":                    "no path of a socket",
		"ssh://x?a=b":                          "takes nothing after",
	} {
		err := Check(address, TLS{})
		if says == "" != (err == nil) || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %q", address, err, says)
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
	if _, err := New(t.Context(), Options{Address: "tcp://127.0.0.1:1", TLS: TLS{CA: dir + "/none"}}); err == nil || errors.Is(err, runner.ErrUnavailable) {
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
	t.Setenv("BUILDKIT_HOST", "tcp://x")
	assert.ErrorContains(t, reachable(t.Context(), ""), "has no port")
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

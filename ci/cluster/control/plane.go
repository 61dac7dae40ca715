package control

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/lab"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

// Config says what runs besides etcd and the API server.
type Config struct {
	Controllers bool // kube-controller-manager: service accounts, DaemonSets, garbage
	Scheduler   bool // kube-scheduler
	KWOK        bool // simulates every node that is created; pods on them run and end at once
}

// Plane is a running control plane, used by one user: Start returns it for cluster-admin, As for other users.
type Plane struct {
	dir    string // folder of everything that belongs to the plane
	bin    string
	server string // URL
	pki    *PKI
	t      testing.TB
	config string // path of this user's kubeconfig
	home   string // HOME of this user's commands

	patience lab.Patience
}

// Start starts a control plane that ends with the test. It returns when the API server is ready and, with
// controllers, when the namespace default has its service account. Without DRIVER_E2E=1 the test is skipped.
func Start(t testing.TB, config Config) *Plane {
	t.Helper()
	p := &Plane{t: t, bin: Bin(t)}
	dir, err := os.MkdirTemp("", "plane-") //nolint:usetesting // t.TempDir has the test's name in it, too long for a socket's
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	p.dir, p.home = dir, dir
	p.pki = require.Value(NewPKI(p.path("pki"), "127.0.0.1", "localhost", serviceAddress))(t)
	p.startEtcd()
	begin := time.Now()
	p.startAPI()
	p.patience = lab.Measure(time.Since(begin), quietStart)
	p.identities()
	p.config = p.path("admin.kubeconfig")
	if config.Controllers {
		p.run("kube-controller-manager", p.controllersArgs()...)
		p.Wait(startLimit, "the service account of the namespace default", func() error {
			_, err := p.TryKubectl("get", "serviceaccount", "default", "-n", "default")
			return err
		})
	}
	if config.Scheduler {
		args := require.Value(p.schedulerArgs())(t)
		p.run("kube-scheduler", args...)
	}
	if config.KWOK {
		args := require.Value(p.kwokArgs())(t)
		p.run("kwok", args...)
	}
	return p
}

func (p *Plane) path(name string) string { return filepath.Join(p.dir, name) }

// run starts a program that runs until the test ends.
func (p *Plane) run(name string, args ...string) *process {
	p.t.Helper()
	proc := require.Value(start(p.dir, p.bin, name, args...))(p.t)
	p.keep(proc)
	return proc
}

// keep ends a program with the test. Cleanups run last in, first out: etcd, which was first, ends after the
// API server.
func (p *Plane) keep(proc *process) {
	p.t.Cleanup(func() {
		if p.t.Failed() && proc.running() { // stop shows the log of a program that has ended
			p.t.Logf("%s, the end of its log:\n%s", proc.name, logTail(proc.log))
		}
		proc.stop(p.t)
	})
}

func (p *Plane) startEtcd() {
	p.t.Helper()
	require.NoError(p.t, p.run("etcd", p.etcdArgs()...).await(p.t.Context(), func(context.Context) error {
		_, err := os.Stat(p.path("etcd.sock"))
		return err
	}))
}

// startAPI finds a port for the API server. The API server does not take an open socket, so another process
// may take the port in between: startAPI tries more than once.
func (p *Plane) startAPI() {
	p.t.Helper()
	client := p.client()
	defer client.CloseIdleConnections()
	var failed error
	for range 3 {
		port := require.Value(freePort())(p.t)
		p.server = fmt.Sprintf("https://127.0.0.1:%d", port)
		proc := require.Value(start(p.dir, p.bin, "kube-apiserver", p.apiserverArgs(port)...))(p.t)
		failed = proc.await(p.t.Context(), func(ctx context.Context) error { return get(ctx, client, p.server+"/readyz") })
		if failed == nil {
			p.keep(proc)
			return
		}
		if proc.running() {
			proc.stop(p.t)
			break
		}
	}
	p.t.Fatalf("kube-apiserver does not become ready: %v; its last lines:\n%s", failed, logTail(p.path("kube-apiserver.log")))
}

// client trusts the plane's authority and has no identity: /readyz is open to everyone.
func (p *Plane) client() *http.Client {
	p.t.Helper()
	pem := require.Value(os.ReadFile(p.pki.Path("ca.crt")))(p.t)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	return &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
}

func get(ctx context.Context, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if body, err := io.ReadAll(io.LimitReader(answer.Body, 4096)); err != nil || answer.StatusCode != http.StatusOK {
		return errors.Join(fmt.Errorf("%s: %s", answer.Status, body), err)
	}
	return nil
}

// identities writes a kubeconfig for each program, with the names to which Kubernetes' own roles are bound,
// and one for human users.
func (p *Plane) identities() {
	p.t.Helper()
	for name, who := range map[string][]string{
		"admin": {"admin", "system:masters"}, "kwok": {"kwok", "system:masters"},
		"controllers": {"system:kube-controller-manager"}, "scheduler": {"system:kube-scheduler"},
	} {
		require.NoError(p.t, p.pki.Kubeconfig(p.path(name+".kubeconfig"), p.server, name, who[0], slices.Clone(who[1:])...))
	}
}

func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	port := listener.Addr().(*net.TCPAddr).Port //nolint:errcheck // a TCP listener's address is one
	return port, listener.Close()
}

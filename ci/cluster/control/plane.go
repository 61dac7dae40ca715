package control

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/driver-container/driver-container/ci/lab"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/tool"
)

const (
	startLimit = 5 * time.Minute  // for each program
	quietStart = 4 * time.Second  // of the slowest program, the API server, on an idle machine
	stopLimit  = 15 * time.Second // how long a program may take to end before it is killed
)

// Config says what runs besides etcd and the API server.
type Config struct {
	Controllers bool // kube-controller-manager: service accounts, DaemonSets, garbage
	Scheduler   bool // kube-scheduler
	KWOK        bool // simulates every node that is created; pods on them run and end at once
}

// Plane is a running control plane, used by one user: Start returns it for cluster-admin, As for
// other users.
type Plane struct {
	Client
	dir    string // folder of everything that belongs to the plane
	server string // URL
	pki    *PKI
}

// Start starts a control plane that ends with the test. It returns when the API server is ready
// and, with controllers, when the namespace default has its service account. Without DRIVER_E2E=1
// the test is skipped.
func Start(t testing.TB, config Config) *Plane {
	t.Helper()
	bin := Bin(t)
	dir, err := os.MkdirTemp("", "plane-") //nolint:usetesting // t.TempDir has the test's name in it, too long for a socket's
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	p := &Plane{Client: Client{T: t, Bin: bin, Home: dir}, dir: dir}
	p.pki = require.Value(NewPKI(p.path("pki"), "127.0.0.1", "localhost", serviceAddress))(t)
	port := reservePort(t)
	p.server = fmt.Sprintf("https://127.0.0.1:%d", port)
	p.Config = p.path("admin.kubeconfig")
	// Kubernetes' own roles are bound to these names.
	for name, who := range map[string]string{"controllers": "system:kube-controller-manager", "scheduler": "system:kube-scheduler"} {
		require.NoError(t, p.pki.Kubeconfig(p.path(name+".kubeconfig"), p.server, who))
	}
	require.NoError(t, p.pki.Kubeconfig(p.Config, p.server, "admin", "system:masters"))
	p.run("etcd", p.etcdArgs(), func() error { _, err := os.Stat(p.path("etcd.sock")); return err })
	begin := time.Now()
	p.run("kube-apiserver", p.apiserverArgs(port), func() error { _, err := p.TryKubectl("get", "--raw", "/readyz"); return err })
	p.Patience = lab.Measure(time.Since(begin), quietStart)
	if config.Controllers {
		p.run("kube-controller-manager", p.controllersArgs(), func() error {
			_, err := p.TryKubectl("get", "serviceaccount", "default", "-n", "default")
			return err
		})
	}
	started := func() error { return nil }
	if config.Scheduler {
		p.run("kube-scheduler", require.Value(p.schedulerArgs())(t), started)
	}
	if config.KWOK {
		p.run("kwok", require.Value(p.kwokArgs())(t), started)
	}
	return p
}

func (p *Plane) path(name string) string { return filepath.Join(p.dir, name) }

// run starts a program and waits until it is ready. It runs until the test ends, and a test in
// which it ends by itself fails. If this process dies, the kernel kills it. Cleanups run last in,
// first out: etcd, which was first, ends after the API server.
func (p *Plane) run(name string, args []string, ready func() error) {
	p.T.Helper()
	var log tool.Buffer
	cmd := exec.Command(filepath.Join(p.Bin, name), args...)
	cmd.Dir = p.dir
	cmd.Stdout = &log
	cmd.Stderr = &log
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + p.dir, "TMPDIR=" + p.dir}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	require.NoErrorf(p.T, cmd.Start(), "start %s", name)
	done := make(chan struct{})
	ended := error(nil)
	go func() { ended = cmd.Wait(); close(done) }()
	p.T.Cleanup(func() {
		select {
		case <-done:
			p.T.Errorf("%s ended by itself: %v", name, ended)
		default:
			_ = cmd.Process.Signal(syscall.SIGTERM)
			kill := time.AfterFunc(stopLimit, func() { _ = cmd.Process.Kill() })
			<-done
			kill.Stop()
		}
		if text := log.String(); p.T.Failed() {
			p.T.Logf("%s, the end of its log:\n%s", name, text[max(0, len(text)-8<<10):])
		}
	})
	gone := false
	p.Wait(startLimit, name+" is ready", func() error {
		select {
		case <-done:
			gone = true
			return nil
		default:
			return ready()
		}
	})
	if gone {
		p.T.Fatalf("%s ended before it was ready: %v", name, ended)
	}
}

// reservePort returns a port of loopback that stays reserved until the test ends: it is bound to a
// socket that does not listen, and the API server shares it (--permit-port-sharing).
func reservePort(t testing.TB) int {
	t.Helper()
	fd := require.Value(unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0))(t)
	t.Cleanup(func() { _ = unix.Close(fd) })
	require.NoError(t, errors.Join(unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1),
		unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}})))
	address := require.Value(unix.Getsockname(fd))(t)
	return address.(*unix.SockaddrInet4).Port //nolint:errcheck // the socket is one of IPv4
}

// As returns the same plane with another user, by impersonation: the API server decides as if that
// user sent the requests.
func (p *Plane) As(user string, groups ...string) *Plane {
	p.T.Helper()
	admin := p.pki.ca.Client("admin", "system:masters")
	return p.user(
		&api.AuthInfo{
			ClientCertificateData: []byte(admin.CertPEM()),
			ClientKeyData:         []byte(admin.KeyPEM()),
			Impersonate:           user,
			ImpersonateGroups:     groups,
		},
	)
}

// ServiceAccount returns the plane as a pod with this service account uses it.
func (p *Plane) ServiceAccount(namespace, name string) *Plane {
	p.T.Helper()
	groups := []string{
		"system:serviceaccounts",
		"system:serviceaccounts:" + namespace,
		"system:authenticated",
	}
	return p.As("system:serviceaccount:"+namespace+":"+name, groups...)
}

// WithToken returns the plane as the bearer of a token uses it.
func (p *Plane) WithToken(token string) *Plane {
	p.T.Helper()
	return p.user(&api.AuthInfo{Token: token})
}

func (p *Plane) user(user *api.AuthInfo) *Plane {
	p.T.Helper()
	home, err := os.MkdirTemp(p.dir, "user-") //nolint:usetesting // inside the plane's folder, which is removed with the plane
	require.NoError(p.T, err)
	other := *p
	other.Home = home
	other.Config = filepath.Join(home, "kubeconfig")
	require.NoError(p.T, p.pki.write(other.Config, p.server, user))
	return &other
}

// Account makes the folder that Kubernetes mounts into a pod with this token, and returns it with
// the server's URL.
func (p *Plane) Account(token, namespace string) (server, dir string) {
	p.T.Helper()
	dir = p.T.TempDir()
	for name, text := range map[string]string{"ca.crt": p.pki.ca.CertPEM(), "token": token, "namespace": namespace} {
		require.NoError(p.T, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	return p.server, dir
}

// With returns the same plane for another test, such as a subtest: failures are reported to that
// test.
func (p *Plane) With(t testing.TB) *Plane {
	other := *p
	other.T = t
	return &other
}

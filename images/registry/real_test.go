package registry

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/crypto/bcrypt"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/ocitest"
	"github.com/driver-container/driver-container/ci/require"
	"github.com/driver-container/driver-container/ci/testcert"
	"github.com/driver-container/driver-container/images/oci"
)

// TestRealRegistry pushes and pulls with Docker's own registry from Debian's package: TLS with a private CA,
// a password, a connection that breaks. It needs the program docker-registry. With DRIVER_E2E=1 a missing
// program is an error.
func TestRealRegistry(t *testing.T) {
	t.Parallel()
	program, err := exec.LookPath("docker-registry")
	if err != nil && os.Getenv("DRIVER_E2E") != "1" {
		t.Skip("docker-registry is not installed (Debian package docker-registry)")
	}
	require.NoError(t, err)
	host, ca := startRegistry(t, program)
	proxy := cuttingProxy(t, host, 1<<20)
	with := func(user login) *Client {
		return client(t, func(o *Options) { o.CAFile, o.Credentials, o.Backoff = ca, user.get, 10*time.Millisecond })
	}
	me := with(login{"me", secret})
	amd, arm := ocitest.Image(t, "amd64", 2<<20, "shared", "amd"), ocitest.Image(t, "arm64", 1000, "shared small", "arm")
	index := ocitest.Index(t, amd, arm)

	// The proxy breaks the connection once, in the middle of a layer.
	_, stats, err := me.Push(t.Context(), proxy+"/team/driver:1-os", index)
	require.NoError(t, err)
	t.Logf("first push, with a broken connection: %+v", stats)
	if _, stats, err = me.Push(t.Context(), host+"/team/driver:1-os", index); err != nil || stats.Uploaded+stats.Mounted != 0 || stats.Bytes != 0 {
		t.Errorf("second push: %+v, %v; want nothing sent", stats, err)
	}
	pulled := require.Value(base(t, me, host+"/team/driver:1-os", "amd64"))(t)
	ocitest.SameLayers(t, pulled.Image, amd)
	if _, stats, err = me.Push(t.Context(), host+"/other/driver:1", pulled.Image); err != nil || stats.Mounted != 3 {
		t.Errorf("push to another repository: %+v, %v; want 3 blobs mounted", stats, err)
	}
	attachToReal(t, me, host+"/team/driver:1-os", host+"/mirror/driver:1", index, amd)
	for _, user := range []login{{"me", "wrong"}, {}} {
		if _, err := base(t, with(user), host+"/team/driver:1-os", "amd64"); err == nil || !strings.Contains(err.Error(), "docker login") {
			t.Errorf("pull as %q: %v; want a hint to log in", user.user, err)
		}
	}
	assert.ErrorContainsf(t, assert.Err(base(t, me, host+"/team/driver:none", "amd64")), "404", "pull of a missing tag")
}

// attachToReal attaches referrers and signatures, which Docker's registry keeps without the referrers API,
// finds them, and copies them with their image by mounting.
func attachToReal(t *testing.T, c *Client, ref, to string, index v1.ImageIndex, img v1.Image) {
	t.Helper()
	all := []oci.Attachment{
		referrer(t, describe(t, index), "one"), referrer(t, describe(t, index), "two"), referrer(t, describe(t, img), "three"),
		signature(t, ocitest.Digest(t, index), "payload", "a"), signature(t, ocitest.Digest(t, index), "payload", "a", "b"),
	}
	for range 2 {
		_, err := c.Attach(t.Context(), ref, all...)
		require.NoError(t, err)
	}
	got := sorted(names(t, require.Value(c.Attachments(t.Context(), ref))(t)))
	assert.Equal(t, 4, len(got))
	for range 2 {
		_, stats, err := c.Copy(t.Context(), ref, to, "alias")
		t.Logf("copy with attachments: %+v", stats)
		if err != nil || stats.Uploaded != 0 || stats.Attachments != 4 {
			t.Errorf("Copy = %+v, %v; want 4 attachments, and nothing sent", stats, err)
		}
		assert.Same(t, got, sorted(names(t, require.Value(c.Attachments(t.Context(), strings.TrimSuffix(to, ":1")+":alias"))(t))))
	}
	host, _, _ := strings.Cut(ref, "/")
	require.NoError(t, c.CheckLogin(t.Context(), host, "me", secret))
	assert.ErrorContains(t, c.CheckLogin(t.Context(), host, "me", "wrong"), "does not accept")
	tags := require.Value(c.ListTags(t.Context(), strings.TrimSuffix(to, ":1")))(t)
	assert.Same(t, []string{"1", "alias"}, tags)
}

// startRegistry runs the server. The server chooses its port, and startRegistry reads the port from the
// server's log.
func startRegistry(t *testing.T, program string) (host, caFile string) {
	t.Helper()
	dir := t.TempDir()
	write := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, data, 0o600))
		return path
	}
	ca := testcert.Authority("test CA")
	server := ca.Server("127.0.0.1")
	hash := require.Value(bcrypt.GenerateFromPassword([]byte(secret), bcrypt.MinCost))(t)
	config := fmt.Sprintf(`version: 0.1
log: {level: info}
storage: {filesystem: {rootdirectory: %q}}
http: {addr: "127.0.0.1:0", tls: {certificate: %q, key: %q}}
auth: {htpasswd: {realm: test, path: %q}}
`, dir, write("cert.pem", []byte(server.CertPEM())), write("key.pem", []byte(server.KeyPEM())), write("htpasswd", append([]byte("me:"), hash...)))
	cmd := exec.CommandContext(t.Context(), program, "serve", write("config.yml", []byte(config)))
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	read, logged := io.Pipe()
	cmd.Stderr, cmd.Stdout = logged, logged
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { // t.Context() has ended: the server is killed
		_ = cmd.Wait()
		_ = logged.Close()
	})
	found := make(chan string, 1)
	go func() {
		listening := regexp.MustCompile(`listening on (127\.0\.0\.1:\d+)`)
		for lines := bufio.NewScanner(read); lines.Scan(); {
			if m := listening.FindStringSubmatch(lines.Text()); m != nil {
				found <- m[1]
				break
			}
		}
		_, _ = io.Copy(io.Discard, read)
	}()
	select {
	case host = <-found:
	case <-time.After(20 * time.Second):
		t.Fatal("docker-registry did not begin to listen")
	}
	return host, write("ca.pem", []byte(ca.CertPEM()))
}

// cuttingProxy forwards connections to a server, and breaks the first one that sends more than limit bytes.
func cuttingProxy(t *testing.T, to string, limit int64) string {
	t.Helper()
	l := require.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	var cutOnce atomic.Bool
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			go pass(in, to, limit, &cutOnce)
		}
	}()
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String()
}

func pass(in net.Conn, to string, limit int64, cutOnce *atomic.Bool) {
	defer in.Close()
	out, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer out.Close()
	go func() {
		_, _ = io.Copy(in, out)
		_ = in.Close()
	}()
	n, err := io.Copy(out, io.LimitReader(in, limit))
	if err != nil || n < limit || cutOnce.Swap(true) {
		_, _ = io.Copy(out, in)
	}
}

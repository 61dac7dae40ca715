package e2e

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/require"
	"github.com/driver-container/driver-container/ci/testcert"
	"github.com/driver-container/driver-container/ci/testfile"
)

// The example of the issue: 418.87.01 on ubuntu16.04, pushed to a private registry with TLS and a password.
// The base is a stand-in with a package repository that the test makes. The driver is a generated archive
// under the real path.
func Test04Registry(t *testing.T) {
	journey(t)
	dir := scratch(t)
	path := "tesla/418.87/NVIDIA-Linux-x86_64-418.87.01.run"
	require.NoError(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(path)), 0o755))
	archive := generate(t, renamed(t, debian(t, "debian11", "418.226.00").driverTree(t), "418.226.00", "418.87.01"),
		"418.87.01", "gzip", filepath.Join(dir, filepath.Dir(path)))
	key := repositoryOf(t, filepath.Join(dir, "ubuntu"), []string{"gcc-5", "kmod", "libc6-dev", "libelf1", "libelf-dev", "make"})
	server := httptest.NewServer(http.FileServer(http.Dir(dir)))
	defer server.Close()
	standIn := standInBase(t, server.URL+"/ubuntu", key)
	reg := startRegistry(t)
	args := []string{program(t), "--progress", "plain", "--os", "ubuntu16.04", "--driver", "418.87.01",
		"--matrix", writeMatrix(t, "ubuntu16.04", "418.87.01", server.URL+"/"+path, archive), "--base", "oci:" + standIn,
		"--ca", reg.ca, "--push", "--repository", reg.host + "/gpu/driver"}

	refused := command{args: args, env: []string{"DOCKER_CONFIG=" + scratch(t)}}.want(t, 4)
	assert.Containsf(t, refused.stderr, reg.host, "without a password: the message does not name the registry %s", refused)
	login := []string{"DOCKER_CONFIG=" + reg.config}
	ref := reg.host + "/gpu/driver:418.87.01-ubuntu16.04"
	first := command{args: args, env: login}.want(t, 0)
	if !strings.HasPrefix(first.stdout, ref+"@sha256:") {
		t.Errorf("want %s@sha256:... on stdout\n%s", ref, first)
	}
	if n := reg.uploads(t); n < 5 {
		t.Errorf("the first push sent %d blobs: the count is wrong", n)
	}
	before := reg.uploads(t)
	second := command{args: args, env: login}.want(t, 0)
	if after := reg.uploads(t); after != before || second.stdout != first.stdout {
		t.Errorf("the second push sent %d blobs, want none and the same digest\n%s", after-before, second)
	}
	pulled := filepath.Join(scratch(t), "pulled")
	auth := []string{"--authfile", filepath.Join(reg.config, "config.json")}
	sh(t, append(append([]string{"skopeo", "--insecure-policy", "copy", "--src-cert-dir", filepath.Dir(reg.ca)}, auth...),
		"docker://"+ref, "oci:"+pulled+":418.87.01-ubuntu16.04")...)
	i := image{dir: pulled, tag: "418.87.01-ubuntu16.04"}
	if i.digest = sh(t, "skopeo", "--insecure-policy", "inspect", "--format", "{{.Digest}}", i.ref()); i.digest != digest(t, first) {
		t.Errorf("pulled back as %s, want %s", i.digest, digest(t, first))
	}
	command{args: []string{program(t), "verify", i.ref()}}.want(t, 0)
	command{args: []string{program(t), "verify", "--ca", reg.ca, ref}, env: login}.want(t, 0)
	if list := i.contents(t, "packages"); list["usr/bin/gcc"] != "link gcc-5" || list["usr/bin/gcc-5"] == "" {
		t.Errorf("no gcc-5 in the packages layer: %v", list)
	}
}

// privateRegistry is a running docker-registry that accepts only its own user.
type privateRegistry struct{ host, ca, config, log string }

// startRegistry starts Debian's docker-registry on a port of its own, until the test ends.
func startRegistry(t *testing.T) privateRegistry {
	t.Helper()
	dir := scratch(t)
	listener := require.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	r := privateRegistry{host: listener.Addr().String(), config: filepath.Join(dir, "docker"), log: filepath.Join(dir, "log")}
	require.NoError(t, listener.Close())
	ca := testcert.Authority("e2e")
	r.ca = testfile.Write(t, dir+"/certs/trust/ca.crt", ca.CertPEM())
	ca.Server("127.0.0.1").Write(t, dir+"/certs/server.pem", dir+"/certs/server-key.pem")
	users := sh(t, "htpasswd", "-Bbn", "builder", "correct horse")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "htpasswd"), []byte(users), 0o600))
	require.NoError(t, os.Mkdir(r.config, 0o700))
	login := fmt.Sprintf(`{"auths":{%q:{"auth":%q}}}`, r.host, base64.StdEncoding.EncodeToString([]byte("builder:correct horse")))
	require.NoError(t, os.WriteFile(filepath.Join(r.config, "config.json"), []byte(login), 0o600))
	settings := fmt.Sprintf(`version: 0.1
log: {level: info}
storage: {filesystem: {rootdirectory: %[1]s/data}}
http: {addr: %[2]s, tls: {certificate: %[1]s/certs/server.pem, key: %[1]s/certs/server-key.pem}}
auth: {htpasswd: {realm: e2e, path: %[1]s/htpasswd}}
`, dir, r.host)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.yml"), []byte(settings), 0o600))
	log := require.Value(os.Create(r.log))(t)
	cmd := exec.Command("docker-registry", "serve", filepath.Join(dir, "config.yml"))
	cmd.Stdout, cmd.Stderr = log, log
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // returns that the process was killed
		require.NoError(t, log.Close())
		if t.Failed() {
			text, _ := os.ReadFile(r.log)
			t.Logf("log of the registry:\n%s", tail(string(text)))
		}
	})
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		conn, err := net.DialTimeout("tcp", r.host, time.Second)
		if err == nil {
			require.NoError(t, conn.Close())
			return r
		}
		if time.Now().After(deadline) {
			t.Fatalf("docker-registry does not listen on %s: %v", r.host, err)
		}
	}
}

// uploads counts the blobs that have been sent: the requests that complete an upload, in the registry's
// access log.
func (r privateRegistry) uploads(t *testing.T) int {
	t.Helper()
	text := require.Value(os.ReadFile(r.log))(t)
	n := 0
	for line := range bytes.Lines(text) {
		if bytes.Contains(line, []byte(`"PUT /v2/gpu/driver/blobs/uploads/`)) || bytes.Contains(line, []byte(`"PATCH /v2/`)) {
			n++
		}
	}
	return n
}

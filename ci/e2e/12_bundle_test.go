package e2e

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/imagetest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testcert"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
)

// Create and import that are killed at random times and then repeated give what undisturbed ones give, and
// leave nothing else. Two imports at once end right.
func Test12BundleKilled(t *testing.T) { bundleKilled(t, 5) }

// fleet is what the tests of bundles share: an image, the bundle that an undisturbed call made of it, and the
// registry of the site.
type fleet struct {
	create       []string // arguments, without the file to write
	cache, whole string
	key          string // public
	site         privateRegistry
	blobs        string // what the site has after an undisturbed import
	took         time.Duration
}

func bundleKilled(t *testing.T, kills int) {
	t.Helper()
	journey(t)
	f := newFleet(t)
	f.site = startRegistry(t)
	begin := time.Now()
	f.importInto(t, "undisturbed").want(t, 0)
	importTook := time.Since(begin)
	f.blobs = f.have(t, "undisturbed")
	random := rand.New(rand.NewPCG(uint64(kills), 12)) //nolint:gosec // times of kills
	for n := range kills {
		f.killCreate(t, n, time.Duration(random.Int64N(int64(f.took))))
		f.killImport(t, n, time.Duration(random.Int64N(int64(importTook))))
	}
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			r := f.importInto(t, "both").do(t)
			assert.Equalf(t, 0, r.code, "two imports at once: %s", r)
		})
	}
	both.Wait()
	assert.Equal(t, f.blobs, f.have(t, "both"))
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	dir := scratch(t)
	public, private, err := ed25519.GenerateKey(nil)
	require.NoError(t, err)
	write := func(name, kind string, der []byte) string {
		return testfile.Write(t, filepath.Join(dir, name), string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})))
	}
	key := write("key", "PRIVATE KEY", require.Value(x509.MarshalPKCS8PrivateKey(private))(t))
	var images []v1.Image
	for _, arch := range []string{"amd64", "arm64"} {
		images = append(images, imagetest.RandomImage(t, arch, 8<<20, "shared", arch+" one", arch+" two"))
	}
	path := require.Value(layout.Write(filepath.Join(dir, "layout"), imagetest.Index(t)))(t)
	require.NoError(t, path.AppendIndex(imagetest.Index(t, images...), layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": "1-os"})))
	f := &fleet{
		cache: filepath.Join(dir, "cache"), whole: filepath.Join(dir, "whole.tar"),
		key: write("key.pub", "PUBLIC KEY", require.Value(x509.MarshalPKIXPublicKey(public))(t)),
	}
	f.create = []string{program(t), "bundle", "create", "--repository", "registry.example.com/gpu/driver", "oci:" + string(path) + ":1-os",
		"--file", filepath.Join(repository(t), "matrix.yaml"), "--image-key", key, "--cache", f.cache, "--progress", "quiet", "--output"}
	f.took = command{args: append(f.create, f.whole), env: fixedTime()}.want(t, 0).took
	return f
}

func fixedTime() []string { return []string{"SOURCE_DATE_EPOCH=1700000000"} }

// killCreate kills a create after some time, and repeats it.
func (f *fleet) killCreate(t *testing.T, n int, after time.Duration) {
	t.Helper()
	dir := scratch(t)
	file := filepath.Join(dir, "fleet.tar")
	create := append(f.create[:len(f.create):len(f.create)], file)
	killed(t, command{args: create, env: fixedTime()}, after)
	if _, err := os.Stat(file); err == nil {
		sh(t, "cmp", file, f.whole)
	}
	time.Sleep(time.Second) // what is younger stays: another process may be about to lock it
	command{args: create, env: fixedTime()}.want(t, 0)
	sh(t, "cmp", file, f.whole)
	for _, e := range require.Value(os.ReadDir(dir))(t) {
		assert.Equalf(t, "fleet.tar", e.Name(), "left after a kill at %s", after)
	}
	assert.Equal(t, 0, len(require.Value(filepath.Glob(filepath.Join(f.cache, "partial", "new-*")))(t)))
	require.NoError(t, os.RemoveAll(dir))
}

func (f *fleet) importInto(t *testing.T, name string) command {
	t.Helper()
	return command{env: []string{"DOCKER_CONFIG=" + f.site.config}, args: []string{program(t), "bundle", "import", f.whole, "--key", f.key,
		"--to", f.site.host + "/" + name + "/driver", "--ca", f.site.ca, "--cache", f.cache, "--progress", "quiet"}}
}

// have returns what the site has under a name.
func (f *fleet) have(t *testing.T, name string) string {
	t.Helper()
	repository := f.site.host + "/" + name + "/driver"
	r := command{env: []string{"DOCKER_CONFIG=" + f.site.config}, args: []string{program(t), "bundle", "have", repository,
		"--ca", f.site.ca, "--cache", f.cache, "--progress", "quiet"}}.want(t, 0)
	return strings.ReplaceAll(r.stdout, repository, "")
}

// killImport kills an import after some time, and repeats it.
func (f *fleet) killImport(t *testing.T, n int, after time.Duration) {
	t.Helper()
	name := fmt.Sprintf("killed%d", n)
	killed(t, f.importInto(t, name), after)
	f.importInto(t, name).want(t, 0)
	assert.Equalf(t, f.blobs, f.have(t, name), "after a kill at %s", after)
	again := f.importInto(t, name).want(t, 0)
	assert.Contains(t, again.stderr, "blobs: 0 sent")
	assert.Equal(t, 0, len(require.Value(filepath.Glob(filepath.Join(f.cache, "partial", "new-*")))(t)))
}

// killed runs a command and kills it after some time, unless it ended before.
func killed(t *testing.T, c command, after time.Duration) {
	t.Helper()
	cmd := exec.Command(c.args[0], c.args[1:]...)
	cmd.Env = append(os.Environ(), c.env...)
	require.NoError(t, cmd.Start())
	timer := time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	_ = cmd.Wait() // it was killed, or has ended well before
}

// privateRegistry is a running docker-registry that accepts only its own user.
type privateRegistry struct{ host, ca, config string }

// startRegistry starts Debian's docker-registry on a port of its own, until the test ends.
func startRegistry(t *testing.T) privateRegistry {
	t.Helper()
	dir := scratch(t)
	ca := testcert.Authority("e2e")
	trusted := testfile.Write(t, dir+"/certs/trust/ca.crt", ca.CertPEM())
	ca.Server("127.0.0.1").Write(t, dir+"/certs/server.pem", dir+"/certs/server-key.pem")
	testfile.Write(t, dir+"/htpasswd", sh(t, "htpasswd", "-Bbn", "builder", "correct horse"))
	tls := fmt.Sprintf("tls: {certificate: %[1]s/certs/server.pem, key: %[1]s/certs/server-key.pem}", dir)
	users := fmt.Sprintf("auth: {htpasswd: {realm: e2e, path: %s/htpasswd}}\n", dir)
	host := imagetest.DockerRegistry(t, dir+"/data", tls, users)
	login := fmt.Sprintf(`{"auths":{%q:{"auth":%q}}}`, host, base64.StdEncoding.EncodeToString([]byte("builder:correct horse")))
	testfile.WriteMode(t, dir+"/docker/config.json", login, 0o600)
	return privateRegistry{host: host, ca: trusted, config: dir + "/docker"}
}

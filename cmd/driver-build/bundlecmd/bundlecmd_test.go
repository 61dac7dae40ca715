package bundlecmd

import (
	"crypto/ed25519"
	"crypto/x509"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	ggcr "github.com/google/go-containerregistry/pkg/registry"
	"github.com/spf13/cobra"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/bundletest"
	"github.com/driver-container/driver-container/ci/testkit/commandtest"
	"github.com/driver-container/driver-container/ci/testkit/goldentest"
	"github.com/driver-container/driver-container/ci/testkit/imagetest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testcert"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/cmd/driver-build/session"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/bundle"
	"github.com/driver-container/driver-container/images/registry"
)

func root(a *session.App) *cobra.Command {
	cmd := &cobra.Command{Use: "driver-build"}
	a.Root(cmd)
	cmd.AddCommand(Commands(a)...)
	return cmd
}

// world is two registries, two machines and a key.
type world struct {
	dir, origin, site, public, private string
}

// anonymous is no credentials: tests must not read those of the user who runs them.
type anonymous struct{}

func (anonymous) Resolve(authn.Resource) (authn.Authenticator, error) { return authn.Anonymous, nil }

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{dir: t.TempDir()}
	registries := map[*string]http.Handler{&w.origin: imagetest.NewRegistry(t), &w.site: ggcr.New(ggcr.Logger(log.New(io.Discard, "", 0)))}
	for name, handler := range registries {
		s := httptest.NewServer(handler)
		t.Cleanup(s.Close)
		*name = strings.TrimPrefix(s.URL, "http://") + "/gpu/driver"
	}
	w.public, w.private = writeKey(t)
	c := require.Value(registry.New(registry.Options{Store: require.Value(fetch.OpenStore(t.TempDir()))(t), Keychain: anonymous{}}))(t)
	defer c.Close()
	b := bundletest.Open(t, bundletest.Bytes(t, bundletest.Options(t), bundletest.Artifacts(t)))
	require.Value(b.Import(t.Context(), c, bundle.ImportOptions{To: w.origin}))(t)
	return w
}

func writeKey(t *testing.T) (public, private string) {
	t.Helper()
	pub, key, err := ed25519.GenerateKey(nil)
	require.NoError(t, err)
	dir := testfile.Tree(t, t.TempDir(), map[string]string{
		"key": testcert.PEM("PRIVATE KEY", require.Value(x509.MarshalPKCS8PrivateKey(key))(t)),
		"pub": testcert.PEM("PUBLIC KEY", require.Value(x509.MarshalPKIXPublicKey(pub))(t)),
	})
	return filepath.Join(dir, "pub"), filepath.Join(dir, "key")
}

func (w *world) path(name string) string { return filepath.Join(w.dir, name) }

// run calls a command of bundle.
func (w *world) run(t *testing.T, args ...string) commandtest.Result {
	t.Helper()
	env := map[string]string{"SOURCE_DATE_EPOCH": "1700000000"}
	return commandtest.Call(t.Context(), t, root, env, append(append([]string{"bundle"}, args...), "--cache", w.path("cache"), "--progress", "quiet")...)
}

// TestTheWholeWay creates, verifies, lists and imports, and does the same again for what is new.
func TestTheWholeWay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	file, list, next := w.path("fleet.tar"), w.path("have.json"), w.path("next.tar")
	w.run(t, "create", "--output", file, "--repository", w.origin, "--chart", "../../../deploy/chart", "--image-key", w.private).Want(t, 0, "fleet.tar: ")
	again := w.run(t, "create", "--output", "-", "--repository", w.origin, "--chart", "../../../deploy/chart", "--image-key", w.private)
	again.Want(t, 0)
	assert.Equalf(t, true, again.Stdout == testfile.Read(t, file), "the same input gave other bytes")
	w.run(t, "verify", file, "--key", w.public).Want(t, 0, "sound")
	shown := w.run(t, "list", file)
	shown.Want(t, 0)
	assert.Contains(t, shown.Stdout, "535-debian12,535.261.03-debian12")
	goldentest.Schema(t, "bundle-list.schema.json", w.run(t, "list", file, "-o", "json").Stdout)
	goldentest.Schema(t, "bundle-verify.schema.json", w.run(t, "verify", file, "--key", w.public, "-o", "json").Stdout)

	w.run(t, "import", file, "--to", w.site, "--key", w.public, "--dry-run", "--values", "-").Want(t, 0)
	r := w.run(t, "import", file, "--to", w.site, "--key", w.public, "--values", "-", "--policy", w.dir, "--offline")
	r.Want(t, 0, "sent")
	assert.Contains(t, r.Stdout, w.site+":550.1-debian12@sha256:")
	assert.Contains(t, r.Stdout, "  repository: "+w.site)
	assert.Contains(t, testfile.Read(t, w.path("policy.json")), `"signedPrefix": "`+w.origin+`"`)
	w.run(t, "import", file, "--to", w.site, "--key", w.public).Want(t, 0, "blobs: 0 sent")
	_, site := writeKey(t)
	r = w.run(t, "import", file, "--to", w.site, "--key", w.public, "--image-key", site, "--policy", w.dir)
	r.Want(t, 0, "signed with the site's key: 5 ")
	for _, file := range []string{"policy.json", "openshift.yaml"} {
		assert.Equalf(t, false, strings.Contains(testfile.Read(t, w.path(file)), "signedIdentity"), "%s: the default identity", file)
	}
	w.run(t, "import", file, "--to", w.site, "--key", w.public, "--image-key", site).Want(t, 0, "signed with the site's key: 0 ")
	w.run(t, "import", file, "--to", w.site, "--key", w.public, "--image-key", w.public).Want(t, 2, "--image-key")

	r = w.run(t, "have", w.site)
	r.Want(t, 0)
	goldentest.Schema(t, "bundle-have.schema.json", r.Stdout)
	testfile.Write(t, list, r.Stdout)
	w.run(t, "create", "--output", next, "--repository", w.origin, "--since", list).Want(t, 0)
	assert.Contains(t, w.run(t, "list", next).Stdout, "in "+w.site)
	w.run(t, "import", next, "--to", w.site, "--allow-unsigned").Want(t, 0, "blobs: 0 sent")
	w.run(t, "import", next, "--to", w.site+"/other/../x", "--allow-unsigned").Want(t, 2, "--to")
}

func TestFaults(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	file := w.path("fleet.tar")
	image := w.origin + ":550.1-debian12"
	w.run(t, "create", "--output", file, "--repository", w.origin, image, "--image-key", w.private).Want(t, 0)
	other, _ := writeKey(t)
	r := w.run(t, "verify", file, "--key", other)
	r.Want(t, 5, "the bundle is not sound")
	assert.Contains(t, r.Stdout, "signature: ")
	raw := []byte(testfile.Read(t, file))
	raw[len(raw)-3000] ^= 1
	testfile.Write(t, file, string(raw))
	w.run(t, "import", file, "--to", w.site, "--key", w.public).Want(t, 5)
	w.run(t, "have", w.site).Want(t, 4)
	w.run(t, "create", "--output", file, "--repository", w.origin, "--os", "debian12", "--driver", "535.261.03").Want(t, 0)
	r = w.run(t, "list", file)
	assert.Contains(t, r.Stdout, "535.261.03-debian12")
	assert.Equalf(t, false, strings.Contains(r.Stdout, "550.1"), "%s", r.Stdout)
	w.run(t, "create", "--output", file, "--repository", w.origin, "--os", "debian13").Want(t, 2, "has no image that is selected")
	for want, args := range map[string][]string{
		"give the file to write":       {"create", "--repository", w.origin},
		"name no images":               {"create", "--output", file, "--repository", w.origin, "--os", "debian12", image},
		"--repository":                 {"create", "--output", file},
		"give --key FILE":              {"verify", file},
		"no such file":                 {"verify", w.path("none"), "--allow-unsigned"},
		"accepts 1 arg(s), received 0": {"verify", "--allow-unsigned"},
		"is neither the list":          {"create", "--output", file, "--repository", w.origin, "--since", w.public},
		"it holds a":                   {"create", "--output", file, "--repository", w.origin, "--image-key", w.public},
		"no public one":                {"verify", file, "--key", w.private},
		"--policy: it has one key":     {"import", file, "--to", w.site, "--allow-unsigned", "--policy", w.dir},
	} {
		w.run(t, args...).Want(t, 2, want)
	}
}

// TestProgress looks at what is shown of create, verify and import: how far each is, and the total.
func TestProgress(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	file := w.path("fleet.tar")
	for _, c := range []struct {
		step string
		args []string
	}{
		{"[-] write", []string{"create", "--output", "-", "--repository", w.origin}},
		{"[" + file + "] write", []string{"create", "--output", file, "--repository", w.origin}},
		{"[" + file + "] verify", []string{"verify", file, "--allow-unsigned"}},
		{"[" + w.site + "] import", []string{"import", file, "--to", w.site, "--allow-unsigned"}},
	} {
		args := append(append([]string{"bundle"}, c.args...), "--cache", w.path("cache"), "--progress", "json")
		commandtest.Call(t.Context(), t, root, nil, args...).Want(t, 0, c.step, `"current":`, `"total":`, `"completed":`)
	}
}

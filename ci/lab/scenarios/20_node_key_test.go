package scenarios

import (
	"slices"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/lab"
	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/testcert"
	"github.com/driver-container/driver-container/images/rehearse/guest"
)

// Steps of Test20SecureBoot with the site's key on the node.

// signsHere mounts the site's key: modules of the cache, which have no signature, are signed on the node.
func signsHere(t *testing.T, g *lab.Guest, site *testcert.Pair) {
	t.Helper()
	g.Write("/keys/key.pem", site.KeyPEM(), 0o400)
	g.Write("/keys/cert.pem", site.CertPEM(), 0o400)
	g.Sh("mkdir -p " + modulesDir + " && cp -a " + forgedDir + "/unsigned/. " + modulesDir)
	c := withKey(light("535"))
	contains(t, loadsSigned(t, g, c), `signing the modules certificate="The site's modules" hash=sha256`)
	assert.Equalf(t, false, strings.Contains(loadsSigned(t, g, c), "signing the modules"), "the second start signed again")
}

// withKey mounts the site's key, which signsHere has written.
func withKey(c lab.Container) lab.Container {
	c.Env = append(slices.Clone(c.Env), "DRIVER_MODULE_SIGNING_KEY=/keys/key.pem", "DRIVER_MODULE_SIGNING_CERT=/keys/cert.pem")
	return c.With(guest.Mount{Host: "/keys", Guest: "/keys", ReadOnly: true})
}

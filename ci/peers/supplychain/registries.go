package supplychain

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/imagetest"
)

// Registries starts the registries of RegistryWithReferrers and RegistryWithoutReferrers. The test
// runs once on each.
func Registries(t *testing.T, test func(t *testing.T, host string)) {
	t.Helper()
	for name, start := range map[string]func(testing.TB) string{"referrers": RegistryWithReferrers, "distribution": RegistryWithoutReferrers} {
		t.Run(name, func(t *testing.T) { test(t, start(t)) })
	}
}

// RegistryWithReferrers starts olareg on loopback, without TLS, and returns its HOST:PORT. It has
// the referrers API.
func RegistryWithReferrers(t testing.TB) string {
	t.Helper()
	server := httptest.NewServer(imagetest.NewRegistry(t))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

// RegistryWithoutReferrers starts Debian's docker-registry (CNCF's Distribution) on loopback,
// without TLS, and returns its HOST:PORT. It answers 404 to the referrers API.
func RegistryWithoutReferrers(t testing.TB) string {
	t.Helper()
	return imagetest.NewDistribution(t).Host
}

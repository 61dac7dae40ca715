package registry

import (
	"net/http"
	"testing"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/require"
)

// Private addresses are not loopback: go-containerregistry would send credentials to them unencrypted.
func TestPlainHTTP(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]bool{
		"127.0.0.1": true, "127.8.8.8:5000": true, "[::1]:5000": true, "localhost:5000": true, "a.localhost": true,
		"10.0.0.1:5000": false, "192.168.1.1": false, "localhost.example": false, "example:5000": false, "169.254.169.254": false,
	} {
		assert.Equalf(t, want, isLoopback(host), "isLoopback(%s)", host)
	}
	req := require.Value(http.NewRequestWithContext(t.Context(), http.MethodGet, "http://10.0.0.1/v2/", http.NoBody))(t)
	resp, err := (&guard{inner: http.DefaultTransport}).RoundTrip(req)
	assert.ErrorIsf(t, err, errPlain, "plain HTTP to a private address: %v", resp)
	if resp != nil {
		_ = resp.Body.Close()
	}
	for _, to := range []string{"http://169.254.169.254/latest", "http://[fe80::1]/x"} {
		req := require.Value(http.NewRequestWithContext(t.Context(), http.MethodGet, to, http.NoBody))(t)
		assert.Errorf(t, checkRedirect(req, nil), "a redirect to %s was followed", to)
	}
}

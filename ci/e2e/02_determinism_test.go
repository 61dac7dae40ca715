package e2e

import (
	"bufio"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/require"
)

func atoi(t *testing.T, s string) int {
	t.Helper()
	return require.Value(strconv.Atoi(s))(t)
}

// Two caches that share only downloads, two folders, two values of TZ and umask, a base at another path: one
// digest. A build from the cache takes seconds.
func Test02Determinism(t *testing.T) {
	journey(t)
	const system, driver = "debian12", "535.261.03"
	from := base(t, system, "amd64")
	moved := filepath.Join(scratch(t), "elsewhere")
	sh(t, "cp", "-a", strings.TrimPrefix(from, "oci:"), moved)
	variants := []struct{ tz, umask, base string }{{"UTC", "022", from}, {"Asia/Tokyo", "077", "oci:" + moved}}
	var digests []string
	for _, v := range variants {
		dir := scratch(t)
		c := command{dir: dir, env: []string{"TZ=" + v.tz}, args: []string{
			"sh", "-c", "umask " + v.umask + `; exec "$@"`, "sh", program(t), "--os", system, "--driver", driver, "--base", v.base,
			"--cache", freshCache(t, system, driver, from), "--progress", "plain", "--output", "oci:out",
		}}
		r := c.want(t, 0)
		t.Logf("TZ=%s umask %s: %s in %.1f s with downloads cached", v.tz, v.umask, digest(t, r), r.took.Seconds())
		digests = append(digests, digest(t, r))
		again := c.want(t, 0)
		if digest(t, again) != digests[0] || again.took > 5*time.Second {
			t.Errorf("with everything cached, want %s within 5 s\n%s", digests[0], again)
		}
		t.Logf("everything cached: %.2f s", again.took.Seconds())
	}
	assert.Equalf(t, digests[1], digests[0], "digests differ: %v", digests)
}

// freshCache makes a cache that holds only the downloads of a target: no layers, no plans, no documents.
func freshCache(t *testing.T, system, driver, base string) string {
	t.Helper()
	cache := filepath.Join(scratch(t), "cache")
	blobs := filepath.Join(cache, "blobs", "sha256")
	require.NoError(t, os.MkdirAll(blobs, 0o755))
	list := sh(t, program(t), "fetch", "--os", system, "--driver", driver, "--base", base, "--progress", "quiet",
		"--matrix", filepath.Join(repository(t), "matrix.yaml"))
	n := 0
	for s := bufio.NewScanner(strings.NewReader(list)); s.Scan(); {
		words := strings.Fields(s.Text())
		if len(words) < 3 {
			continue // the base
		}
		sh(t, "cp", "-a", "--reflink=auto", words[1], blobs)
		n++
	}
	if n == 0 {
		t.Fatalf("fetch listed no downloads:\n%s", list)
	}
	return cache
}

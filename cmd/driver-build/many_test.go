package main

import (
	"net/http"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/commandtest"
	"github.com/driver-container/driver-container/ci/testkit/imagetest"
)

// manyTargets is a user with a matrix of 4 systems by 3 drivers.
func manyTargets(t *testing.T) *user {
	t.Helper()
	return &user{commandtest.In(t, imagetest.NewFleet(t, imagetest.Fleet{Systems: 4, Drivers: 3, Files: 20}), newRootCmd)}
}

const fleetTargets = 12

// TestManyFail: what cannot be built is reported once for each cause, and everything else is built.
func TestManyFail(t *testing.T) {
	t.Parallel()
	u := manyTargets(t)
	u.Fault(func(rw http.ResponseWriter, r *http.Request) bool {
		switch {
		case strings.Contains(r.URL.Path, "535.101.01"):
			http.NotFound(rw, r)
		case strings.Contains(r.URL.Path, "/base/debian13"):
			http.Error(rw, "closed", http.StatusForbidden)
		default:
			return false
		}
		return true
	})
	r := u.Run(t, "--all", "--progress", "quiet", "--output", "oci:"+u.Path("dist")).Want(t, 3, "6 of 12 targets")
	assert.Equalf(t, 6, strings.Count(r.Stdout, "@sha256:"), "images that were built")
	for cause, most := range map[string]int{"do not allow to pull": 1, "535.101.01.run": 1} {
		if n := strings.Count(r.Stderr, cause); n != most {
			t.Errorf("%s is named %d times:\n%s", cause, n, r.Stderr)
		}
	}
	u.Fault(nil)
	again := u.Run(t, "--all", "--progress", "quiet", "--output", "oci:"+u.Path("dist")).Want(t, 0)
	assert.Equalf(t, fleetTargets, strings.Count(again.Stdout, "@sha256:"), "images in the end")
}

// TestManyRequests: what a call asks of the network does not grow with the number of drivers.
func TestManyRequests(t *testing.T) {
	t.Parallel()
	u := manyTargets(t)
	u.Run(t, "--all", "--dry-run").Want(t, 0)
	asked := func(args string) int {
		t.Helper()
		before := u.Requests("")
		u.tool(t, args).Want(t, 0)
		return u.Requests("") - before
	}
	alone := asked("--dry-run --driver 535.100.01 --os debian12 --os debian13 --os ubuntu22.04 --os ubuntu24.04")
	for _, args := range []string{"--all --dry-run", "lock --lock " + u.Path("other.lock")} {
		assert.Equalf(t, alone, asked(args), "requests of %s", args)
	}
	assert.Equalf(t, 0, asked("report --releases none --html "+u.Path("page.html")), "a report without a registry")
}

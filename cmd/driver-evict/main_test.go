package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/goldentest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/node/evict"
)

var podEnv = []string{"NODE_NAME=gpu-1", "POD_NAME=driver-abc", "POD_NAMESPACE=nvidia", "POD_UID=u", "KUBERNETES_SERVICE_HOST=fd00::1", "KUBERNETES_SERVICE_PORT=443"}

func TestSettings(t *testing.T) {
	t.Parallel()
	s, f := newSettings()
	env := append(podEnv, "DRIVER_EVICT_TIMEOUT=10m", "DRIVER_EVICT_RETRY_AFTER=30s", "DRIVER_EVICT_GRACE_PERIOD=60", "DRIVER_EVICT_FORCE=true", "DRIVER_EVICT_DAEMONSETS=true", "DRIVER_EVICT_RESOURCE_CLAIMS=true", "DRIVER_RUN_DIR=/x")
	require.NoError(t, s.parse(f, []string{"--timeout", "7m"}, env))
	want := evict.Config{Node: "gpu-1", Pod: "driver-abc", Namespace: "nvidia", UID: "u", Run: "/x",
		Timeout: 7 * time.Minute, RetryAfter: 30 * time.Second, GracePeriod: 60, Force: true, DaemonSets: true, ResourceClaims: true}
	if s.cfg != want || s.server != "https://[fd00::1]:443" || s.account != "/var/run/secrets/kubernetes.io/serviceaccount" {
		t.Errorf("%+v", s)
	}
}

// TestHelp: ci/lint reads this file, too.
func TestHelp(t *testing.T) {
	t.Parallel()
	var out, errs bytes.Buffer
	if code := run([]string{"driver-evict", "--help"}, nil, &out, &errs); code != 0 {
		t.Errorf("exit code %d: %s", code, &errs)
	}
	goldentest.Compare(t, "testdata/help-driver-evict.txt", out.String())
}

func TestRun(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		args     []string
		env      []string
		code     int
		out, err string
	}{
		"help":            {args: []string{"--help"}, out: "DRIVER_EVICT_RETRY_AFTER"},
		"version":         {args: []string{"--version"}, out: "driver-evict "},
		"flag":            {args: []string{"--tiemout=1m"}, code: 2, err: "unknown flag: --tiemout"},
		"argument":        {args: []string{"now"}, code: 2, err: `takes no arguments, but got ["now"]`},
		"nothing":         {code: 2, err: "POD_UID"},
		"environment":     {env: append(podEnv, "DRIVER_EVICT_TIMEOUT=soon"), code: 2, err: `DRIVER_EVICT_TIMEOUT="soon"`},
		"number":          {args: []string{"--grace-period=soon"}, env: podEnv, code: 2, err: `--grace-period is "soon"; it must be a whole number`},
		"switch":          {args: []string{"--force=maybe"}, env: podEnv, code: 2, err: `--force is "maybe"; it must be true or false`},
		"duration":        {env: append(podEnv, "DRIVER_EVICT_RETRY_AFTER=30"), code: 2, err: `DRIVER_EVICT_RETRY_AFTER="30": --retry-after is "30"; it must be a duration`},
		"relative folder": {args: []string{"--run-dir=here"}, env: podEnv, code: 2, err: "--run-dir"},
		"value":           {args: []string{"--timeout=1s"}, env: podEnv, code: 2, err: "--timeout is 1s"},
		"pause":           {args: []string{"--retry-after=0"}, env: podEnv, code: 2, err: "--retry-after is 0s"},
		"grace period":    {args: []string{"--grace-period=-2"}, env: podEnv, code: 2, err: "--grace-period is -2"},
		"log format":      {args: []string{"--log-format=xml"}, env: podEnv, code: 2, err: "--log-format"},
		"no server":       {env: podEnv[:4], code: 2, err: "KUBERNETES_SERVICE_HOST"},
		"no token":        {args: []string{"--service-account-dir", t.TempDir()}, env: podEnv, code: 2, err: "projected token"},
		"flag before env": {args: []string{"--timeout=1s"}, env: append(podEnv, "DRIVER_EVICT_TIMEOUT=10m"), code: 2, err: "--timeout is 1s"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out, errs bytes.Buffer
			code := run(append([]string{"driver-evict"}, tc.args...), tc.env, &out, &errs)
			if code != tc.code || !strings.Contains(out.String(), tc.out) || !strings.Contains(errs.String(), tc.err) {
				t.Errorf("code %d, want %d\n%s\n%s", code, tc.code, &out, &errs)
			}
		})
	}
}

package evict

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/logtest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/node/status"
)

func TestWatch(t *testing.T) {
	t.Parallel()
	run := t.TempDir()
	path := filepath.Join(run, statusFile)
	var log logtest.Log
	w := watch{run: run, log: log.Logger()}
	put := func(text string) {
		t.Helper()
		require.NoError(t, errors.Join(os.WriteFile(path+".tmp", []byte(text), 0o644), os.Rename(path+".tmp", path)))
	}
	if st := w.read(); st.State != "" || len(log.Lines()) > 0 {
		t.Errorf("no file: %+v, %q", st, log.Lines())
	}
	for _, state := range []status.State{status.Waiting, status.Serving} {
		put(fmt.Sprintf(`{"schema":1,"state":%q}`, state))
		for range 2 {
			if st := w.read(); st.State != state {
				t.Errorf("%s: %+v", state, st)
			}
		}
	}
	put(`{"schema":1,"st`)
	for range 3 {
		if st := w.read(); st.State != "" || len(log.Lines()) != 1 || !strings.Contains(log.Lines()[0], "unexpected EOF") {
			t.Errorf("broken: %+v, %q", st, log.Lines())
		}
	}
	put(`{"schema":99,"state":"waiting"}`)
	if st := w.read(); st.State != "" || len(log.Lines()) != 2 || !strings.Contains(log.Lines()[1], "schema 99") {
		t.Errorf("of another version: %+v, %q", st, log.Lines())
	}
	require.NoError(t, os.Remove(path))
	if st := w.read(); st.State != "" || len(log.Lines()) != 2 {
		t.Errorf("gone: %+v, %q", st, log.Lines())
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	good := Defaults()
	good.Node, good.Pod, good.Namespace, good.UID = "n", "p", "ns", "u"
	assert.NoError(t, good.Check())
	for want, edit := range map[string]func(*Config){
		"--node-name (NODE_NAME) is empty": func(c *Config) { c.Node = "" },
		"field metadata.uid":               func(c *Config) { c.UID = "" },
		"POD_NAMESPACE":                    func(c *Config) { c.Namespace = "" },
		"POD_NAME":                         func(c *Config) { c.Pod = "" },
		"absolute path":                    func(c *Config) { c.Run = "run" },
		"--timeout is 1s":                  func(c *Config) { c.Timeout = 1e9 },
		"--retry-after is 0s":              func(c *Config) { c.RetryAfter = 0 },
		"--grace-period is -2":             func(c *Config) { c.GracePeriod = -2 },
	} {
		c := good
		edit(&c)
		if err := c.Check(); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestConnect(t *testing.T) {
	t.Parallel()
	if _, err := Connect("", t.TempDir(), "x"); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), "KUBERNETES_SERVICE_HOST") {
		t.Error(err)
	}
	if _, err := Connect("https://127.0.0.1:1", t.TempDir(), "x"); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), "projected token") {
		t.Error(err)
	}
	dir := t.TempDir()
	for _, name := range []string{"token", "ca.crt"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("no certificate"), 0o600))
	}
	assert.ErrorIs(t, assert.Err(Connect("https://127.0.0.1:1", dir, "x")), ErrConfig)
}

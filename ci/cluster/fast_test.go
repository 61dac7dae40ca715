package cluster

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/qemu"
	"github.com/driver-container/driver-container/ci/require"
)

// TestShell: answers come in any order, and incomplete lines are skipped.
func TestShell(t *testing.T) {
	t.Parallel()
	ours, theirs := net.Pipe()
	s := newShell(ours)
	t.Cleanup(func() { theirs.Close() })
	go func() {
		in := bufio.NewReader(theirs)
		var asked []string
		for range 2 {
			line, err := in.ReadString('\n')
			if err != nil {
				return
			}
			asked = append(asked, line)
		}
		fmt.Fprint(theirs, "1 0\nx 0 eA==\n")
		for i := range asked {
			f := strings.Fields(asked[len(asked)-1-i])
			command, _ := base64.StdEncoding.DecodeString(f[2])
			fmt.Fprintf(theirs, "%s 3 %s\n", f[0], base64.StdEncoding.EncodeToString(append([]byte("did "), command...)))
		}
	}()
	for _, command := range []string{"one", "two"} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			r, err := s.run(command, time.Minute)
			if err != nil || r.code != 3 || r.text != "did "+command {
				t.Errorf("%+v, %v", r, err)
			}
		})
	}
}

// TestQMP: events between a command and its answer are not the answer.
func TestQMP(t *testing.T) {
	t.Parallel()
	ours, end := qemu.SocketPair(t)
	theirs, err := net.FileConn(end)
	require.NoError(t, errors.Join(err, end.Close()))
	t.Cleanup(func() { ours.Close(); theirs.Close() })
	go func() {
		fmt.Fprintln(theirs, `{"QMP": {}}`)
		in := json.NewDecoder(theirs)
		for n := 0; ; n++ {
			var c struct{ Execute string }
			if in.Decode(&c) != nil {
				return
			}
			fmt.Fprintln(theirs, `{"event": "STOP"}`)
			switch {
			case c.Execute == "query-status" && n > 2:
				fmt.Fprintln(theirs, `{"return": {"status": "paused"}}`)
			case c.Execute == "query-status":
				fmt.Fprintln(theirs, `{"return": {"status": "inmigrate"}}`)
			case c.Execute == "bad":
				fmt.Fprintln(theirs, `{"error": {"desc": "no such command"}}`)
			default:
				fmt.Fprintln(theirs, `{"return": {}}`)
			}
		}
	}()
	q := require.Value(newQMP(ours))(t)
	assert.NoError(t, q.restored(time.Minute))
	assert.ErrorContains(t, q.do("bad", nil, nil), "no such command")
	assert.Errorf(t, q.poll("query-status", "running", time.Millisecond), "it never ran")
}

func TestCached(t *testing.T) {
	t.Setenv("DRIVER_CLUSTER_DIR", t.TempDir())
	built := 0
	build := func(dir string) { built++; require.NoError(t, os.Mkdir(dir, 0o755)) }
	for i, key := range []string{"a", "a", "b", "c", "d"} {
		dir := cached(t, "thing", key, build)
		at := time.Now().Add(time.Duration(i-10) * time.Minute)
		require.NoError(t, os.Chtimes(dir, at, at))
	}
	left := require.Value(filepath.Glob(filepath.Join(cacheDir(t), "thing-*")))(t)
	if built != 4 || len(left) != 3 || !strings.HasSuffix(left[0], "b") || !strings.HasSuffix(left[2], "d") {
		t.Errorf("%d built, left %v", built, left)
	}
}

func TestDigestOf(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	seen := map[string]bool{}
	for i, change := range []func() error{
		func() error { return os.WriteFile(file, []byte("1"), 0o644) },
		func() error { return os.WriteFile(file, []byte("2"), 0o644) },
		func() error { return os.Chmod(file, 0o755) },
		func() error { return os.Rename(file, file+"2") },
	} {
		require.NoError(t, change())
		seen[digestOf(t, []string{"a"}, dir)] = true
		assert.Equalf(t, i+1, len(seen), "change %d changed nothing", i)
	}
	if digestOf(t, []string{"ab", "c"}) == digestOf(t, []string{"a", "bc"}) {
		t.Error("texts run into each other")
	}
}

func TestPodsPath(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"":                         "/api/v1/namespaces/default/pods?",
		"-A -l a=b":                "/api/v1/pods?labelSelector=a%3Db",
		"-n work -l app=x":         "/api/v1/namespaces/work/pods?labelSelector=app%3Dx",
		"--namespace=work":         "/api/v1/namespaces/work/pods?",
		"--field-selector=a.b=c":   "/api/v1/namespaces/default/pods?fieldSelector=a.b%3Dc",
		"--show-labels -n default": "",
	} {
		if got, ok := podsPath(strings.Fields(args)); got != want || ok != (want != "") {
			t.Errorf("%q: %q, %t, want %q", args, got, ok, want)
		}
	}
}

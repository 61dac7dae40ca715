package cluster

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/lab/qemu"
	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
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

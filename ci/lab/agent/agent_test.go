package main

import (
	"bufio"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/driver-container/driver-container/ci/lab/wire"
	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

// talk is the test's end of a server's port.
type talk struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
	id   uint64
	seen []wire.Message // events that arrived while talk waited for an answer
}

func newTalk(t *testing.T) *talk {
	t.Helper()
	ours, theirs := net.Pipe()
	t.Cleanup(func() { ours.Close(); theirs.Close() })
	require.NoError(t, ours.SetDeadline(time.Now().Add(2*time.Minute)))
	s := &server{port: theirs, processes: map[string]*process{}}
	go func() { _ = s.loop(theirs) }() // until the pipe is closed
	return &talk{t: t, conn: ours, in: bufio.NewReader(ours)}
}

func (k *talk) next() wire.Message {
	k.t.Helper()
	line := require.Value(k.in.ReadBytes('\n'))(k.t)
	var m wire.Message
	require.NoError(k.t, json.Unmarshal(line, &m))
	return m
}

func (k *talk) ask(op string, body any) wire.Message {
	k.t.Helper()
	k.id++
	text := require.Value(json.Marshal(body))(k.t)
	line := require.Value(json.Marshal(wire.Request{ID: k.id, Op: op, Body: text}))(k.t)
	require.Value(k.conn.Write(append(line, '\n')))(k.t)
	for {
		m := k.next()
		if m.ID == k.id {
			return m
		}
		k.seen = append(k.seen, m)
	}
}

// end collects a process's output until the process ends.
func (k *talk) end(id string) (lines []string, code int) {
	k.t.Helper()
	for {
		var m wire.Message
		if len(k.seen) > 0 {
			m, k.seen = k.seen[0], k.seen[1:]
		} else {
			m = k.next()
		}
		switch {
		case m.Process != id:
		case m.Event == wire.EventLine:
			lines = append(lines, m.Text)
		case m.Event == wire.EventExit:
			return lines, m.Code
		}
	}
}

func TestProcesses(t *testing.T) {
	t.Parallel()
	k := newTalk(t)
	env := []string{"PATH=/usr/bin:/bin", "A=1"}
	if m := k.ask(wire.OpStart, wire.Spec{ID: "p", Args: []string{"sh", "-c", "echo $A; echo two >&2; printf three; exit 4"}, Env: env}); m.Error != "" {
		t.Fatal(m.Error)
	}
	lines, code := k.end("p")
	if diff := cmp.Diff([]string{"1", "two", "three"}, lines); diff != "" || code != 4 {
		t.Error(code, diff)
	}
	if m := k.ask(wire.OpSignal, wire.Signal{Process: "p", Number: 15}); m.Error == "" {
		t.Error("a signal to a process that has ended was accepted")
	}
	k.ask(wire.OpStart, wire.Spec{ID: "q", Args: []string{"sleep", "1000"}, Env: env})
	assert.Equal(t, "", k.ask(wire.OpSignal, wire.Signal{Process: "q", Number: 15}).Error)
	if _, code := k.end("q"); code != 128+15 {
		t.Errorf("ended by a signal: %d", code)
	}
	k.ask(wire.OpStart, wire.Spec{ID: "r", Args: []string{"sleep", "1000"}, Env: env})
	assert.Equal(t, "", k.ask(wire.OpDestroy, wire.Signal{Process: "r"}).Error)
	if _, code := k.end("r"); code != 128+9 {
		t.Errorf("destroyed: %d", code)
	}
}

// TestLongLines: a line that is longer than the limit comes in parts, and no part is lost.
func TestLongLines(t *testing.T) {
	t.Parallel()
	k := newTalk(t)
	k.ask(wire.OpStart, wire.Spec{ID: "p", Args: []string{"sh", "-c", "head -c 100000 /dev/zero | tr '\\0' x; echo; echo end"}, Env: []string{"PATH=/usr/bin:/bin"}})
	lines, _ := k.end("p")
	all := strings.Join(lines, "")
	if len(all) != 100003 || lines[len(lines)-1] != "end" || len(lines) != 5 {
		t.Errorf("%d lines with %d bytes", len(lines), len(all))
	}
}

func TestFiles(t *testing.T) {
	t.Parallel()
	k := newTalk(t)
	dir := t.TempDir()
	path := filepath.Join(dir, "a/b")
	if m := k.ask(wire.OpWrite, wire.File{Path: path, Data: []byte("x"), Mode: 0o600}); m.Error != "" {
		t.Fatal(m.Error)
	}
	require.NoError(t, os.Symlink("b", filepath.Join(dir, "a/link")))
	var f wire.File
	if err := json.Unmarshal(k.ask(wire.OpRead, wire.File{Path: path}).Body, &f); err != nil || string(f.Data) != "x" {
		t.Errorf("read %q: %v", f.Data, err)
	}
	var entries []wire.Entry
	require.NoError(t, json.Unmarshal(k.ask(wire.OpList, wire.File{Path: filepath.Join(dir, "a")}).Body, &entries))
	want := []wire.Entry{
		{Path: filepath.Join(dir, "a"), Mode: "drwxr-xr-x"}, {Path: path, Mode: "-rw-------", Size: 1},
		{Path: filepath.Join(dir, "a/link"), Mode: "Lrwxrwxrwx", Link: "b"},
	}
	assert.Same(t, want, entries)
	k.ask(wire.OpRemove, wire.File{Path: filepath.Join(dir, "a")})
	assert.Errorf(t, assert.Err(os.Stat(filepath.Join(dir, "a"))), "not removed")
}

func TestRefused(t *testing.T) {
	t.Parallel()
	k := newTalk(t)
	for op, body := range map[string]any{
		"nonsense": wire.File{}, wire.OpRead: wire.File{Path: "/no/such/file"}, wire.OpList: wire.File{Path: "/no/such"}, wire.OpStart: wire.Spec{ID: "x"},
		wire.OpSignal: wire.Signal{Process: "unknown"}, wire.OpDestroy: "not an object",
	} {
		if m := k.ask(op, body); m.Error == "" {
			t.Errorf("%s was accepted", op)
		}
	}
	assert.Containsf(t, k.ask(wire.OpStart, wire.Spec{ID: "y", Args: []string{"/no/such/program"}}).Error, "no such file", "start")
	if m := k.ask(wire.OpStart, wire.Spec{ID: "z", Args: []string{"true"}, Join: "unknown"}); m.Error == "" {
		t.Error("joined an unknown container")
	}
}

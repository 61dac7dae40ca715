package cluster

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// qmp is a connection to QEMU's monitor, which runs one command at a time.
type qmp struct {
	conn *net.UnixConn
	in   *bufio.Reader
}

const qmpLimit = time.Minute

// newQMP does the handshake with a monitor.
func newQMP(conn *net.UnixConn) (*qmp, error) {
	q := &qmp{conn: conn, in: bufio.NewReader(conn)}
	if err := conn.SetReadDeadline(time.Now().Add(qmpLimit)); err != nil {
		return nil, err
	}
	if _, err := q.in.ReadBytes('\n'); err != nil { // the monitor's greeting
		return nil, fmt.Errorf("QEMU's monitor does not answer: %w", err)
	}
	return q, q.do("qmp_capabilities", nil, nil)
}

// do runs a command; answer may be nil. files are sent with it.
func (q *qmp) do(command string, arguments, answer any, files ...*os.File) error {
	text, err := json.Marshal(struct {
		Execute   string `json:"execute"`
		Arguments any    `json:"arguments,omitempty"`
	}{command, arguments})
	if err != nil {
		return err
	}
	var rights []byte
	for _, f := range files {
		rights = append(rights, unix.UnixRights(int(f.Fd()))...)
	}
	if err := q.conn.SetDeadline(time.Now().Add(qmpLimit)); err != nil {
		return err
	}
	if _, _, err := q.conn.WriteMsgUnix(append(text, '\n'), rights, nil); err != nil {
		return fmt.Errorf("QEMU's monitor: %s: %w", command, err)
	}
	for {
		line, err := q.in.ReadBytes('\n')
		if err != nil {
			return fmt.Errorf("QEMU's monitor: %s: %w", command, err)
		}
		var reply struct {
			Return json.RawMessage
			Error  *struct{ Desc string }
		}
		switch err := json.Unmarshal(line, &reply); {
		case err != nil:
			return fmt.Errorf("QEMU's monitor: %s: %w", command, err)
		case reply.Error != nil:
			return fmt.Errorf("QEMU's monitor: %s: %s", command, reply.Error.Desc)
		case reply.Return == nil: // an event
		case answer != nil:
			return json.Unmarshal(reply.Return, answer)
		default:
			return nil
		}
	}
}

// give passes a file to QEMU under a name.
func (q *qmp) give(name string, f *os.File) error {
	return q.do("getfd", map[string]string{"fdname": name}, nil, f)
}

// save stops the guest and writes its state, without its disks, to a file.
func (q *qmp) save(to *os.File, limit time.Duration) error {
	const unlimited = 1 << 40
	if err := errors.Join(
		q.do("stop", nil, nil),
		q.do("migrate-set-parameters", map[string]int{"max-bandwidth": unlimited}, nil),
		q.give("state", to),
		q.do("migrate", map[string]string{"uri": "fd:state"}, nil),
	); err != nil {
		return err
	}
	return q.poll("query-migrate", "completed", limit)
}

// restored waits until a guest that was started from a state has read it, and then lets the guest run.
func (q *qmp) restored(limit time.Duration) error {
	if err := q.poll("query-status", "paused", limit); err != nil {
		return err
	}
	return q.do("cont", nil, nil)
}

// poll sends the command until QEMU answers with the wanted status.
func (q *qmp) poll(command, want string, limit time.Duration) error {
	for end := time.Now().Add(limit); ; <-time.After(20 * time.Millisecond) {
		var is struct{ Status string }
		if err := q.do(command, nil, &is); err != nil {
			return err
		}
		switch {
		case is.Status == want:
			return nil
		case is.Status == "failed" || time.Now().After(end):
			return fmt.Errorf("QEMU's monitor: %s says %q, not %q (limit %s)", command, is.Status, want, limit)
		}
	}
}

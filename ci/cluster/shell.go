package cluster

import (
	"bufio"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"
)

// shell is the root shell on the node, guest/root/usr/local/lib/cluster/shell: lines of base64 on a virtio
// port. Several commands may run at the same time.
type shell struct {
	conn net.Conn

	mu      sync.Mutex
	next    int
	waiting map[int]chan result
}

// result is the result of a command: its exit code, and its standard output and error as one text.
type result struct {
	code int
	text string
}

func newShell(conn net.Conn) *shell {
	s := &shell{conn: conn, waiting: map[int]chan result{}}
	go s.receive() // until QEMU ends, or close
	return s
}

func (s *shell) receive() {
	const limit = 64 << 20
	lines := bufio.NewScanner(s.conn)
	lines.Buffer(nil, limit)
	for lines.Scan() {
		f := strings.Split(lines.Text(), " ")
		if len(f) != 3 {
			continue // the rest of a line that was cut off when the node was reset
		}
		id, err1 := strconv.Atoi(f[0])
		code, err2 := strconv.Atoi(f[1])
		text, err3 := base64.StdEncoding.DecodeString(f[2])
		if errors.Join(err1, err2, err3) != nil {
			continue
		}
		s.mu.Lock()
		waiter := s.waiting[id]
		delete(s.waiting, id)
		s.mu.Unlock()
		if string(text) == "\n" { // the node's end of the shell adds a newline to every answer, also to an empty one
			text = nil
		}
		if waiter != nil {
			waiter <- result{code, string(text)} // the channel has room
		}
	}
	_ = s.conn.Close()
}

// run runs a bash command, which is killed on the node when the limit has passed (exit code 124).
func (s *shell) run(command string, limit time.Duration) (result, error) {
	reply := make(chan result, 1)
	s.mu.Lock()
	s.next++
	id := s.next
	s.waiting[id] = reply
	_, err := fmt.Fprintf(s.conn, "%d %d %s\n", id, int(max(limit, time.Second).Seconds()), base64.StdEncoding.EncodeToString([]byte(command)))
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.waiting, id)
		s.mu.Unlock()
	}()
	if err != nil {
		return result{}, fmt.Errorf("the shell on the node: %w", err)
	}
	timer := time.NewTimer(limit + 15*time.Second)
	defer timer.Stop()
	select {
	case r := <-reply:
		return r, nil
	case <-timer.C:
		return result{}, fmt.Errorf("the shell on the node gave no answer within %s to: %s", limit, command)
	}
}

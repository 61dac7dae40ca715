package lock

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/kmod/kmsg"
)

// Holder describes who holds the lock, as the lock file names it. Of NVIDIA's container only PID is
// known; PID 0 means that even this is unknown.
type Holder struct {
	PID   int       `json:"pid"`
	Pod   string    `json:"pod,omitempty"`
	Image string    `json:"image,omitempty"`
	Host  string    `json:"host,omitempty"`
	Since time.Time `json:"since,omitzero"`
}

// String is the form for logs: `pid 4711, pod gpu/driver-x7k2p, image driver:535.261.03-debian12,
// since 2026-01-02T15:04:05Z`.
func (h Holder) String() string {
	var pid, since string
	if h.PID > 0 {
		pid = strconv.Itoa(h.PID)
	}
	if !h.Since.IsZero() {
		since = h.Since.UTC().Format(time.RFC3339)
	}
	var parts []string
	for _, v := range [][2]string{{"pid", pid}, {"pod", h.Pod}, {"image", h.Image}, {"host", h.Host}, {"since", since}} {
		if v[1] != "" {
			parts = append(parts, v[0]+" "+v[1])
		}
	}
	return cmp.Or(strings.Join(parts, ", "), "a process that left no name")
}

// maxContent limits what is read of a lock file: any process on the node may have written it.
const maxContent = 4096

// parse reads the content of our file (JSON) or of NVIDIA's (a process id). Any other content is an
// unknown holder, since only the lock itself counts. Control characters are replaced, because the
// text goes to logs.
func parse(content []byte) Holder {
	text := strings.TrimSpace(string(content))
	if pid, err := strconv.Atoi(text); err == nil {
		return Holder{PID: max(pid, 0)}
	}
	var h Holder
	if err := json.Unmarshal([]byte(text), &h); err != nil {
		return Holder{}
	}
	if y := h.Since.Year(); y < 1970 || y > 9999 { // such a time cannot be marshalled as JSON again
		h.Since = time.Time{}
	}
	return Holder{
		PID:   max(h.PID, 0),
		Pod:   clean(h.Pod),
		Image: clean(h.Image),
		Host:  clean(h.Host),
		Since: h.Since,
	}
}

func clean(s string) string { return kmsg.Printable(s[:min(len(s), 512)]) }

func readHolder(f *os.File) Holder {
	content, err := io.ReadAll(io.NewSectionReader(f, 0, maxContent))
	if err != nil {
		return Holder{}
	}
	return parse(content)
}

// Path returns the path of our own lock file in the folder that all instances share, /run/nvidia.
func Path(run string) string { return filepath.Join(run, "driver-entrypoint.lock") }

// LegacyPath returns the path of the lock file of NVIDIA's container, in the same folder.
func LegacyPath(run string) string { return filepath.Join(run, "nvidia-driver.pid") }

// Held returns who holds the lock of a node; the bool is false if nobody does. It looks at our file in run
// and, if nobody has locked that, at run itself: an instance whose file was removed by force still
// holds the folder.
func Held(run string) (Holder, bool, error) {
	holder, held, err := peek(Path(run))
	if held || err != nil {
		return holder, held, err
	}
	return peek(run)
}

// peek returns the holder of the lock at path and whether it is locked. It never waits and keeps
// nothing. A missing file is a free lock. peek takes a shared lock for a moment; use it only on our
// own file: NVIDIA's script would not try again.
func peek(path string) (Holder, bool, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, os.ErrNotExist) {
		return Holder{}, false, nil
	}
	if err != nil {
		return Holder{}, false, fmt.Errorf("look at the driver's lock: %w", err)
	}
	defer f.Close()
	err = flock(f, unix.LOCK_SH)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return readHolder(f), true, nil
	}
	if err != nil {
		return Holder{}, false, fmt.Errorf("look at the driver's lock: %w", err)
	}
	return Holder{}, false, nil // closing drops the shared lock
}

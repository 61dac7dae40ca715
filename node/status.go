package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/node/daemons"
	"github.com/driver-container/driver-container/node/devices"
)

// State is where a driver is in its life. docs/operations.md says what each means and what to do.
type State string

// States, in the order of a life. Absent, serving and detached are where an instance may end up; the others pass.
const (
	Waiting  State = "waiting"  // for the lock, or for a driver in use that must go first
	Starting State = "starting" // in the phase that Status.Phase names
	Serving  State = "serving"  // ready
	Degraded State = "degraded" // everything is up, but something that must work does not: not ready
	Stopping State = "stopping" // taking down, or waiting for holders
	Detached State = "detached" // left in place, in use, without a process: a successor adopts it
	Restored State = "restored" // a newer driver failed to load, the older one was put back; without a process
	Absent   State = "absent"   // nothing is loaded or mounted
	Failed   State = "failed"   // a start failed; what it had put up is gone again
)

// StatusSchema is raised when the meaning of a field changes.
const StatusSchema = 1

// Status is what is known about the driver on this node, kept in /run/nvidia/driver-status.json: for people, for probes, and for
// a successor that has to know what is its own. It does not outlive a boot.
type Status struct {
	Schema   int       `json:"schema"`
	BootID   string    `json:"bootID"`
	State    State     `json:"state"`
	Ready    bool      `json:"ready"`
	Reason   string    `json:"reason,omitempty"` // why it is not ready
	Phase    string    `json:"phase,omitempty"`
	Instance string    `json:"instance"`
	PID      int       `json:"pid"`
	Pod      string    `json:"pod,omitempty"`
	Image    string    `json:"image,omitempty"`
	Started  time.Time `json:"started"`
	Updated  time.Time `json:"updated"`
	Kernel   string    `json:"kernel"`
	Wanted   string    `json:"wanted"` // version of the image's driver
	Phases   []Timing  `json:"phases,omitempty"`
	Warnings []string  `json:"warnings,omitempty"`

	Up      *Driver         `json:"up,omitempty"` // what is loaded and served, of whichever version
	Daemons []daemons.State `json:"daemons,omitempty"`
	GPUs    []GPU           `json:"gpus,omitempty"`
	Holders []kmod.Holder   `json:"holders,omitempty"` // who keeps the driver in use, when that is in the way
}

// Timing is how long a phase took.
type Timing struct {
	Phase   string  `json:"phase"`
	Seconds float64 `json:"seconds"`
}

// Driver is a driver that is up: what a successor needs in order to adopt it, to take it down, or to put it back.
type Driver struct {
	Version  string         `json:"version"`
	Flavour  string         `json:"flavour"`
	Source   string         `json:"source"` // image, cache, compiled
	Modules  []LoadedModule `json:"modules"`
	InTree   []string       `json:"inTree,omitempty"` // modules of the kernel that were loaded for it
	RootID   string         `json:"rootID"`
	RootDir  string         `json:"rootDir,omitempty"` // staged root on the host's storage; empty: the image itself was bound
	Nodes    []devices.Node `json:"nodes,omitempty"`   // device files that were made
	Firmware bool           `json:"firmware"`          // the kernel's search path for firmware is ours
}

// LoadedModule is one module with what it was loaded with.
type LoadedModule struct {
	Name       string   `json:"name"` // as in /proc/modules
	SrcVersion string   `json:"srcVersion"`
	File       string   `json:"file"`
	SHA256     string   `json:"sha256"`
	Params     []string `json:"params,omitempty"`
}

// GPU is a device on the PCI bus and what became of it.
type GPU struct {
	Address string `json:"address"`
	ID      string `json:"id"` // "10de:1eb8"
	Name    string `json:"name,omitempty"`
	UUID    string `json:"uuid,omitempty"`
	Works   bool   `json:"works"`
	Reason  string `json:"reason,omitempty"` // the kernel's, when it does not
}

// ReadStatus reads the status file; the error is fs.ErrNotExist where there was never a driver since boot.
func ReadStatus(run string) (Status, error) {
	const limit = 1 << 20
	var st Status
	path := Config{Run: run}.statusPath()
	f, err := os.Open(path)
	if err != nil {
		return st, fmt.Errorf("read the driver's status: %w", err)
	}
	info, err := f.Stat()
	if err == nil && info.Size() > limit {
		err = fmt.Errorf("%s has %d bytes", path, info.Size())
	}
	if err == nil {
		err = json.NewDecoder(f).Decode(&st)
	}
	if err == nil && st.Schema != StatusSchema {
		err = fmt.Errorf("%s has schema %d, this program knows %d", path, st.Schema, StatusSchema)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return Status{}, fmt.Errorf("read the driver's status: %w", err)
	}
	return st, nil
}

// board keeps the status file up to date. It may be used by several goroutines.
type board struct {
	mu   sync.Mutex
	path string
	now  func() time.Time
	st   Status
	err  error // of the last write: told once by its reader
}

// adoptFile reads what a predecessor of the same boot wrote; nothing when there is none or it cannot be read.
func (b *board) adoptFile() Status {
	old, err := ReadStatus(filepath.Dir(b.path))
	if err != nil || old.BootID != b.st.BootID {
		return Status{}
	}
	return old
}

// change edits the status and writes it when that made a difference.
func (b *board) change(edit func(*Status)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	edit(&b.st)
	b.st.Updated = b.now().UTC().Truncate(time.Millisecond)
	b.err = b.write()
}

// set is the usual change.
func (b *board) set(state State, reason string) {
	b.change(func(st *Status) { st.State, st.Ready, st.Reason = state, state == Serving, reason })
}

// get returns a copy that may be kept.
func (b *board) get() Status {
	b.mu.Lock()
	defer b.mu.Unlock()
	st := b.st
	st.Phases, st.Warnings = slices.Clone(st.Phases), slices.Clone(st.Warnings)
	return st
}

func (b *board) write() error {
	if b.path == "" {
		return nil
	}
	data, err := json.MarshalIndent(b.st, "", "  ")
	if err != nil {
		return err
	}
	return writeFile(b.path, append(data, '\n'), 0o644)
}

// writeFile replaces a file as a whole. /run is memory: there is nothing to sync.
func writeFile(path string, data []byte, mode fs.FileMode) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".tmp-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	_, err = f.Write(data)
	if err = errors.Join(err, f.Chmod(mode), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// mute returns a board that keeps its status to itself: for verbs that do not have the node.
func (b *board) mute() *board { return &board{now: b.now, st: b.st} }

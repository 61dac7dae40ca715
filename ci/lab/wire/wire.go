// Package wire holds the protocol between the test on the host and the agent in the guest: JSON objects, one
// a line, over a virtio-serial port. It has types and limits only; the agent and package lab send and
// receive.
package wire

import "encoding/json"

// Port is the name of the virtio-serial port, as /sys/class/virtio-ports/*/name shows it.
const Port = "driver-lab"

// NoHeaders on the kernel's command line makes the agent hide the kernel's headers before any other process
// starts.
const NoHeaders = "driver_lab.noheaders"

// MaxLine bounds one line of the protocol, and MaxText one line of a process's output; longer ones are split.
const (
	MaxLine = 64 << 20
	MaxText = 32 << 10
)

// Request asks the agent for an operation. Answers may come in another order.
type Request struct {
	ID   uint64
	Op   string          // one of the Op constants
	Body json.RawMessage // its type depends on Op
}

// The operations: each comment names the type of Body and of the answer's Body.
const (
	OpMount    = "mount"    // Mount, nothing: mount a disk
	OpStart    = "start"    // Spec, Started: start a process or a container
	OpSignal   = "signal"   // Signal, nothing: to the first process
	OpDestroy  = "destroy"  // Signal (the number is ignored), nothing: kill every process and remove the root file system
	OpRead     = "read"     // File, File with Data
	OpWrite    = "write"    // File, nothing
	OpRemove   = "remove"   // File, nothing: remove a file or a folder with its contents
	OpList     = "list"     // File, []Entry: everything below Path on the same file system
	OpModule   = "module"   // File, nothing: insert kernel modules by name, dependencies first
	OpInsert   = "insert"   // File, Inserted: insert a module file as insmod does; a refusal is an answer
	OpReboot   = "reboot"   // nothing, nothing: restart right after the answer
	OpPowerOff = "poweroff" // nothing, no answer
)

// Message is an answer, when ID is not 0, or an event.
type Message struct {
	ID    uint64          `json:",omitempty"`
	Error string          `json:",omitempty"` // why the request failed
	Body  json.RawMessage `json:",omitempty"`

	Event   string `json:",omitempty"` // EventReady, EventLine or EventExit
	Process string `json:",omitempty"` // Spec.ID
	Nanos   int64  `json:",omitempty"` // the guest's clock, since 1970
	Text    string `json:",omitempty"` // EventLine: without the newline; EventReady: the kernel's release
	Code    int    `json:",omitempty"` // EventExit: 128+n when signal n ended it
}

// The events.
const (
	EventReady = "ready" // the agent takes requests now
	EventLine  = "line"
	EventExit  = "exit"
)

// Mount is a disk to be mounted.
type Mount struct {
	Serial string // serial number of the virtio disk
	Path   string // folder in the guest, made when missing
	Type   string // "erofs" or "ext4"
}

// Signal is sent to a process that was started.
type Signal struct {
	Process string
	Number  int
}

// File is a file on the guest's host. Mode 0 means 0644.
type File struct {
	Path string
	Mode uint32 `json:",omitempty"`
	Data []byte `json:",omitempty"`
}

// Entry is one file of a listing.
type Entry struct {
	Path  string
	Mode  string // as ls -l: "drwxr-xr-x"
	Link  string `json:",omitempty"` // target of a symbolic link
	Major uint32 `json:",omitempty"` // of a device node
	Minor uint32 `json:",omitempty"`
	Size  int64  `json:",omitempty"` // of a regular file
}

// Spec is a process to be started: in a container of its own (Image), in the container of another process
// (Join), or on the guest's host.
type Spec struct {
	ID   string // 64 hex digits, as in containerd
	Args []string
	Env  []string
	Dir  string `json:",omitempty"`
	// Image is the folder with the image's root file system, read only; several folders are joined by colons,
	// the upper layer first.
	Image   string `json:",omitempty"`
	Join    string `json:",omitempty"` // ID of a running container
	PodUID  string `json:",omitempty"`
	Name    string `json:",omitempty"` // name of the container in its pod, and its host name
	Binds   []Bind `json:",omitempty"`
	HostDev bool   `json:",omitempty"` // /dev is the host's, not a copy of its nodes
	OwnPIDs bool   `json:",omitempty"` // a PID namespace of its own
	UpperMB int    `json:",omitempty"` // upper layer on a tmpfs of this size, not on the host's disk
	Memory  int64  `json:",omitempty"` // bytes; 0: no limit
	CPUs    float64
}

// Bind makes a folder or file of the host visible in a container.
type Bind struct {
	Host     string
	Guest    string
	ReadOnly bool `json:",omitempty"`
	Shared   bool `json:",omitempty"` // mounts appear on both sides: Bidirectional in Kubernetes
	File     bool `json:",omitempty"` // the target is a file; an empty one is made if it is missing
}

// Started is the answer to OpStart.
type Started struct{ PID int }

// Inserted is the answer to OpInsert: the kernel's error number, 0 for none.
type Inserted struct{ Errno int }

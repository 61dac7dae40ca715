// Package wire holds the protocol between this machine and the program driver-guest in a guest:
// JSON objects over a virtio-serial port, one on a line. This machine asks for processes, and the
// guest tells what becomes of them. It also holds what the guest's initramfs says about its set-up.
package wire

// MaxText bounds one line of a process's output; longer ones come in parts.
const MaxText = 32 << 10

// Request asks the guest to start a process. The environment's PATH has no effect on where its
// program is found.
type Request struct {
	Process string // its name in the events; each is used once
	Args    []string
	Env     []string
	Input   []byte `json:",omitempty"` // all of its standard input
	// PIDFile is where the process writes the PID of another one, which it starts and waits for.
	// The events tell of that PID then.
	PIDFile string `json:",omitempty"`
	// Power, if it is set, is all of the request.
	Power Power `json:",omitempty"`
}

// Power is what becomes of the guest.
type Power string

// The values of Power. No process is asked to end before.
const (
	Off    Power = "off"
	Reboot Power = "reboot"
)

// Event is news from the guest.
type Event struct {
	Kind    Kind
	Process string `json:",omitempty"`
	Nanos   int64  // the guest's clock, since 1970
	PID     int    `json:",omitempty"` // of Started
	Text    string `json:",omitempty"` // of Ready, Line and Failed
	Code    int    `json:",omitempty"` // of Exited: 128+n when signal n ended it
}

// Kind says what has happened.
type Kind string

// The kinds. Of a process there is Exited or Failed in the end; before, Started (unless it wrote no
// PIDFile) and any number of lines, in any order.
const (
	Ready   Kind = "ready" // the guest takes requests now; the text is the kernel's release
	Started Kind = "started"
	Line    Kind = "line"   // of stdout or stderr, without the newline
	Exited  Kind = "exited" // and all of its output was sent
	Failed  Kind = "failed" // it could not be started: the text says why
)

// Setup is what process 1 makes of a guest. It is the file SetupFile of the initramfs.
type Setup struct {
	Modules   []string // files of the initramfs, in the order in which they are inserted
	OSRelease string   // content of /etc/os-release
	Disks     []Disk   // to mount, read only
}

// SetupFile is the path of the Setup.
const SetupFile = "/setup.json"

// Disk is a virtio disk by its serial number.
type Disk struct{ Serial, Path string }

// The serial numbers of the disks that each guest has.
const (
	HostDisk = "host" // its folder usr becomes /usr
	VarDisk  = "var"  // /var/lib, the only one that the guest writes to
)

// Package wire holds the protocol between the test on the host and the agent in the guest: JSON
// objects over a virtio-serial port. The test asks for processes, and the agent tells what becomes
// of them.
package wire

// MaxText bounds one line of a process's output; longer ones come in parts.
const MaxText = 32 << 10

// Request asks the agent to start a process. The environment's PATH has no effect on where its
// program is found.
type Request struct {
	Process string // its name in the events; each is used once
	Args    []string
	Env     []string
	Input   []byte `json:",omitempty"` // all of its standard input
	// PIDFile is where the process writes the PID of another one, which it starts and waits for.
	// The events tell of that PID then.
	PIDFile string `json:",omitempty"`
}

// Event is news from the agent.
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
	Ready   Kind = "ready" // the agent takes requests now; the text is the kernel's release
	Started Kind = "started"
	Line    Kind = "line"   // of stdout or stderr, without the newline
	Exited  Kind = "exited" // and all of its output was sent
	Failed  Kind = "failed" // it could not be started: the text says why
)

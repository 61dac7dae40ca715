// Package dialstdio connects to BuildKit daemons through a program of this machine: kubectl, docker, podman,
// nerdctl or ssh runs "buildctl dial-stdio" beside the daemon, and the program's stdin and stdout are the
// connection. BuildKit's own helpers make the command and run it, without a shell.
//
// This package refuses addresses whose parts the program would read as options, and says why a program
// ended. It does not speak to the daemon, does not connect again and has no deadlines: the caller of Dial
// closes the connection, which ends the program.
package dialstdio

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os/exec"
	"sync"

	"github.com/moby/buildkit/client/connhelper"
	_ "github.com/moby/buildkit/client/connhelper/dockercontainer"  // docker-container://
	_ "github.com/moby/buildkit/client/connhelper/kubepod"          // kube-pod://
	_ "github.com/moby/buildkit/client/connhelper/nerdctlcontainer" // nerdctl-container://
	_ "github.com/moby/buildkit/client/connhelper/podmancontainer"  // podman-container://
	_ "github.com/moby/buildkit/client/connhelper/ssh"              // ssh://
)

// Dialer makes connections to one address. It is safe for concurrent use.
type Dialer struct {
	address string
	form    form
	try     []string // command for a person who wants to know why there is no connection
	connect func(context.Context, string) (net.Conn, error)

	mu   sync.Mutex
	last *EndedError // of the newest connection
}

// New returns the dialer of an address. The dialer is nil if the address needs no program. New runs nothing
// and does not look for the program.
func New(u *url.URL) (*Dialer, error) {
	f, ok := forms[u.Scheme]
	if !ok {
		return nil, nil //nolint:nilnil // most addresses are sockets
	}
	try, err := f.check(u)
	if err != nil {
		return nil, fmt.Errorf("the address %q of a buildkitd: %w", u, err)
	}
	helper, err := connhelper.GetConnectionHelper(u.String())
	if err != nil {
		return nil, fmt.Errorf("the address %q of a buildkitd cannot be read: %w", u, err)
	}
	return &Dialer{address: u.String(), form: f, try: try, connect: helper.ContextDialer}, nil
}

// Find looks for the program in PATH.
func (d *Dialer) Find() error {
	if _, err := exec.LookPath(d.form.program); err != nil {
		return fmt.Errorf("the address %q of a buildkitd needs the program %s on this machine: %w: install %s, or give a daemon at tcp://HOST:PORT",
			d.address, d.form.program, err, d.form.program)
	}
	return nil
}

// Dial starts the program. Its second parameter is for gRPC, which passes the address there.
func (d *Dialer) Dial(ctx context.Context, address string) (net.Conn, error) {
	d.set(nil)
	if err := d.Find(); err != nil {
		return nil, err
	}
	c, err := d.connect(ctx, address)
	if err != nil {
		return nil, fmt.Errorf("start %s for the connection to buildkitd at %s: %w", d.form.program, d.address, err)
	}
	return &conn{Conn: c, dialer: d, ended: make(chan struct{})}, nil
}

// Ended returns how the program of the newest connection ended, and nil while it runs.
func (d *Dialer) Ended() *EndedError {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.last
}

// Advice returns what to do about a connection that was not made and whose program has not ended.
func (d *Dialer) Advice() string { return tryByHand(d.try) }

func (d *Dialer) set(e *EndedError) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.last = e
}

package buildkit

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	gateway "github.com/moby/buildkit/frontend/gateway/pb"
	"github.com/moby/buildkit/util/grpcerrors"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"

	"github.com/driver-container/driver-container/images/runner"
)

// errLost says that the same step may succeed on the same address: another daemon may answer there,
// or the same one again.
var errLost = errors.New("was lost while it worked")

// explain classifies a solve's error: failure of the command, trouble of the daemon, or something
// else. ctx must be alive.
func (d *Daemon) explain(ctx context.Context, s runner.Step, lines *runner.Lines, err error) error {
	lost := func(reason error) error {
		return unavailable(
			"step "+s.Name,
			fmt.Errorf("buildkitd at %s %w: %w", d.Address, errLost, reason),
		)
	}
	var exit *gateway.ExitError
	code := grpcerrors.Code(err)
	// not by us: a daemon that is stopped ends its steps
	ended := strings.Contains(err.Error(), context.Canceled.Error())
	switch {
	case errors.As(err, &exit) && !ended:
		return d.failed(s, lines, exit)
	case strings.Contains(err.Error(), unix.ENOSPC.Error()),
		strings.Contains(err.Error(), unix.EDQUOT.Error()):
		return unavailable(
			"step "+s.Name,
			fmt.Errorf(
				"the disk of buildkitd at %s is full: %w: free it there with buildctl prune, or give the daemon a larger one (--root)",
				d.Address,
				err,
			),
		)
	case ended, code == codes.Unavailable, code == codes.Canceled:
		return lost(d.program.reason(err))
	}
	// If the daemon does not answer any more, report that before any other error.
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	if _, gone := d.ask(ctx); gone != nil {
		return lost(errors.Join(err, gone))
	}
	return fmt.Errorf("step %s: buildkitd at %s could not run it: %w", s.Name, d.Address, err)
}

// failed returns the error of a failed command. Runc reports a signal as 128 plus its number, as a
// shell does. When it could not start a command, it prints the reason on a line of its own and
// returns code 1.
func (d *Daemon) failed(
	s runner.Step,
	lines *runner.Lines,
	exit *gateway.ExitError,
) *runner.FailedError {
	f := &runner.FailedError{
		Step:   s.Name,
		Runner: d.String(),
		Code:   int(exit.ExitCode),
		Tail:   lines.Tail(),
	}
	last := ""
	if n := len(f.Tail); n > 0 {
		last = f.Tail[n-1]
	}
	switch {
	case exit.ExitCode == gateway.UnknownExitStatus && exit.Err != nil:
		f.Code = -1
		f.Err = exit.Err
	case exit.ExitCode == 1 && strings.HasPrefix(last, "runc run failed: "):
		f.Code = -1
		f.Err = errors.New(last)
	case exit.ExitCode == 128+uint32(unix.SIGKILL):
		f.Code = -1
		f.Err = errors.New(
			"signal 9 (killed): most likely the memory of the daemon's machine was at an end",
		)
	case exit.ExitCode > 128 && exit.ExitCode <= 128+64:
		f.Code = -1
		f.Err = fmt.Errorf("signal %d (%v)", exit.ExitCode-128, unix.Signal(exit.ExitCode-128))
	}
	return f
}

const hungUp = "the other side hung up: a daemon with --tlscacert wants a client certificate of that CA (BUILDKIT_TLS_CERT, BUILDKIT_TLS_KEY)"

// advice returns what to do about a daemon that does not answer.
func (d *Daemon) advice(err error) string {
	switch {
	case d.program == nil:
		return advice(err)
	case d.program.reason(nil) != nil:
		return "" // the error says it
	}
	return ": " + d.program.advice()
}

// advice is that of a socket. The texts on the left come from gRPC, the kernel and crypto/tls,
// which offer them only as text.
func advice(err error) string {
	text := err.Error()
	for _, a := range []struct{ sign, do string }{
		{"certificate signed by unknown authority", "give the CA that signed the daemon's certificate (BUILDKIT_TLS_CACERT)"},
		{"certificate is valid for", "name the daemon as its certificate does (BUILDKIT_TLS_SERVERNAME)"},
		{"certificate is not valid for", "name the daemon as its certificate does (BUILDKIT_TLS_SERVERNAME)"},
		{"certificate has expired", "the daemon needs a new certificate, or a clock is wrong"},
		{"tls: certificate required", "the daemon wants to know who we are: give a client certificate (BUILDKIT_TLS_CERT, BUILDKIT_TLS_KEY)"},
		{"remote error: tls", "the daemon refuses our client certificate: it has to be signed by the daemon's --tlscacert"},
		{"first record does not look like a TLS handshake", "the daemon speaks without TLS: leave the TLS options away"},
		{"error reading server preface", "what listens there is no buildkitd, or wants TLS: give its CA (BUILDKIT_TLS_CACERT)"},
		{"broken pipe", hungUp}, // TLS 1.3 tells a client only later what was wrong with its certificate
		{"connection reset by peer", hungUp},
		{"no such host", "the host of the address is not known: check its name"},
		{"permission denied", "the socket belongs to another user or group: run as root, or start buildkitd with --group"},
		{"connection refused", "nothing listens there: start buildkitd, or give the address of one that runs"},
		{"no such file or directory", "nothing listens there: start buildkitd, or give the address of one that runs"},
	} {
		if strings.Contains(text, a.sign) {
			return ": " + a.do
		}
	}
	return ": is buildkitd running there, and does a firewall let us through?"
}

package guest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/distros/lazyregexp"
	"github.com/driver-container/driver-container/images/rehearse/gpu"
)

// machine is a running QEMU.
type machine struct {
	cmd     *exec.Cmd
	done    chan struct{}
	own     lastPart // its own messages
	console lastPart
	serial  net.Conn // the console
	port    net.Conn // to driver-guest
	gpus    []*gpu.GPU
	files   []*os.File // QEMU's ends of the sockets

	memoryMB int
}

// newMachine starts QEMU, which ends with ctx.
func newMachine(ctx context.Context, c *Config, dir string) (_ *machine, err error) {
	program, err := findQEMU(ctx, len(c.GPUs) > 0)
	if err != nil {
		return nil, err
	}
	m := &machine{done: make(chan struct{}), memoryMB: c.MemoryMB}
	defer func() {
		if err != nil {
			err = errors.Join(err, m.close())
		}
	}()
	err = m.connect(c.GPUs)
	if err != nil {
		return nil, err
	}
	args, err := c.arguments(dir)
	if err != nil {
		return nil, err
	}
	m.cmd = exec.CommandContext(ctx, program, args...)
	m.cmd.ExtraFiles = m.files
	m.cmd.Stdout = &m.own
	m.cmd.Stderr = &m.own
	m.cmd.WaitDelay = time.Second
	m.cmd.SysProcAttr = session()
	err = m.cmd.Start()
	if err != nil {
		return nil, fmt.Errorf("start QEMU: %w", err)
	}
	for _, file := range m.files {
		_ = file.Close() // QEMU has its own
	}
	go func() {
		m.console.read(m.serial) // what QEMU wrote before its end is there when it has ended
		_ = m.cmd.Wait()         // its state says how it ended
		close(m.done)
	}()
	return m, nil
}

// connect makes the sockets: port, console, GPUs, as arguments numbers them.
func (m *machine) connect(models []gpu.Model) (err error) {
	for _, conn := range []*net.Conn{&m.port, &m.serial} {
		ours, theirs, err := gpu.SocketPair()
		if err != nil {
			return err
		}
		*conn = ours
		m.files = append(m.files, theirs)
	}
	for _, model := range models {
		g, err := gpu.Serve(model)
		if err != nil {
			return err
		}
		m.gpus = append(m.gpus, g)
		m.files = append(m.files, g.File)
	}
	return nil
}

// CheckTools says which program that a guest needs is not on this machine.
func CheckTools(ctx context.Context) error {
	_, err := findQEMU(ctx, true)
	if err != nil {
		return err
	}
	_, err = findMke2fs()
	return err
}

// findQEMU returns QEMU's program, if it can have fake GPUs where these are wanted.
func findQEMU(ctx context.Context, proxy bool) (string, error) {
	const elsewhere = "/usr/libexec/qemu-kvm" // RHEL
	program, err := exec.LookPath("qemu-system-x86_64")
	if err != nil {
		program, err = exec.LookPath(elsewhere)
	}
	if err != nil {
		return "", failure.New(failure.Unexpected, "QEMU is not on this machine: "+
			"install qemu-system-x86 (Debian, Ubuntu), qemu-system-x86-core (Fedora) or qemu-kvm (RHEL)")
	}
	if !proxy {
		return program, nil
	}
	devices, err := exec.CommandContext(ctx, program, "-device", "help").Output()
	if err != nil {
		return "", fmt.Errorf("ask %s for its devices: %w", program, err)
	}
	if !strings.Contains(string(devices), `"x-pci-proxy-dev"`) {
		return "", failure.Errorf(failure.Unexpected, "%s has no device x-pci-proxy-dev, "+
			"by which a guest gets a fake GPU: use a QEMU with it, such as that of Debian 12 (qemu-system-x86)", program)
	}
	return program, nil
}

// wait waits for QEMU's end and kills it when ctx ends. It returns an error if it was killed, or if
// it broke the protocol of a GPU.
func (m *machine) wait(ctx context.Context) error {
	select {
	case <-m.done:
		return m.close()
	case <-ctx.Done():
		err := fmt.Errorf("the guest did not power off and was killed: %w", context.Cause(ctx))
		return errors.Join(err, m.kill())
	}
}

// kill ends QEMU at once.
func (m *machine) kill() error {
	_ = m.cmd.Process.Kill() // it has ended, or ends now
	<-m.done
	return m.close()
}

// close closes the sockets; QEMU has ended, or was not started.
func (m *machine) close() (err error) {
	for _, file := range m.files {
		_ = file.Close() // most are closed already
	}
	for _, g := range m.gpus {
		err = errors.Join(err, g.Close())
	}
	for _, conn := range []net.Conn{m.port, m.serial} {
		if conn != nil {
			_ = conn.Close()
		}
	}
	return err
}

// end says how QEMU ended. It waits a little for that: sockets are closed first.
func (m *machine) end() error {
	select {
	case <-m.done:
	case <-time.After(5 * time.Second):
		return errors.New("the guest's port is closed")
	}
	how := "QEMU ended: " + m.cmd.ProcessState.String()
	own := tail(m.own.String())
	if own != "" {
		how += ": " + own
	}
	if outOfMemory().MatchString(how) {
		how += fmt.Sprintf("; is there less memory than the %d MiB of the guest, here or in this container?", m.memoryMB)
	}
	return errors.New(how)
}

// outOfMemory matches the end of a QEMU that the kernel killed or gave no memory.
var outOfMemory = lazyregexp.New(`signal: killed|allocate memory`)

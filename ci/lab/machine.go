package lab

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/images/rehearse/gpu"
)

// machine is a running QEMU.
type machine struct {
	cmd     *exec.Cmd
	done    chan struct{}
	err     error           // of its end, after done
	said    strings.Builder // its own messages; read them after done
	t       testing.TB
	gpus    []*gpu.GPU
	port    net.Conn
	console string   // file
	serial  net.Conn // the console, if the test types on it
}

// firstFD is the file descriptor in QEMU of the first file that it is started with.
const firstFD = 3

// System is another system than the lab's own, whose process 1 is the script init. It starts the
// agent at the port "agent".
type System struct {
	Initramfs string        // a file
	Disk      string        // a file; what a guest writes to it is lost
	Arguments []string      // more of QEMU's, for a network
	Quiet     time.Duration // until the agent answers, on an idle machine
}

// startMachine starts QEMU with one end of a socket as the agent's port and one for each GPU.
func startMachine(t testing.TB, c *Config) *machine {
	t.Helper()
	dir := t.TempDir()
	initramfs := filepath.Join(dir, "initramfs")
	if c.System != nil {
		initramfs = c.System.Initramfs
	} else {
		c.initramfs(t, initramfs)
	}
	m := &machine{t: t, done: make(chan struct{}), console: filepath.Join(dir, "console")}
	port, theirs := socketPair(t)
	m.port = port
	files := []*os.File{theirs}
	for _, model := range c.GPUs {
		g := require.Value(gpu.Serve(model))(t)
		m.gpus = append(m.gpus, g)
		files = append(files, g.File)
	}
	args := append(arguments(c), disks(t, c)...)
	if c.Firmware != nil {
		args = append(args, c.Firmware.arguments(t, c, dir, initramfs, commandLine(c))...)
	} else {
		args = append(args, "-machine", "pc,memory-backend=ram", "-no-reboot", "-kernel", c.Kernel.image, "-initrd", initramfs, "-append", commandLine(c))
	}
	if c.Firmware != nil && c.Firmware.Debian {
		serial, end := socketPair(t)
		m.serial = serial
		files = append(files, end)
		args = append(
			args,
			"-chardev",
			fmt.Sprintf("socket,id=console,fd=%d,logfile=%s", firstFD+len(files)-1, m.console),
			"-serial",
			"chardev:console",
		)
	} else {
		args = append(args, "-serial", "file:"+m.console)
	}
	m.cmd = exec.Command("qemu-system-x86_64", args...)
	m.cmd.ExtraFiles = files
	m.cmd.Stdout = &m.said
	m.cmd.Stderr = &m.said
	m.cmd.WaitDelay = time.Second
	// QEMU ends with the test even if the test is killed. It has a session of its own: a signal
	// from the keyboard is for the test.
	m.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setsid: true}
	err := m.cmd.Start()
	for _, f := range files {
		err = errors.Join(err, f.Close())
	}
	require.NoError(t, err)
	go func() {
		m.err = m.cmd.Wait()
		close(m.done)
	}()
	return m
}

// commandLine returns the kernel's command line. Warnings go to the console too, for a guest that
// hangs. The log keeps all messages of the driver.
func commandLine(c *Config) string {
	return strings.TrimSpace(
		"console=ttyS0 loglevel=5 panic=-1 log_buf_len=4M mitigations=off nosoftlockup " + c.CommandLine,
	)
}

// arguments returns QEMU's arguments, except those of the guest's boot, its console and its disks.
// They request software emulation, because KVM is often available and broken. Instructions for AES
// save time; vectors wider than SSE are slow to emulate, and programs use them if the processor has
// them. A fake GPU needs memory that can be shared with another process: the machine has to name
// the backend "ram".
//
// With ",thread=multi" and two processors, QEMU 7.2 hangs for ever, rarely, when both access one
// fake GPU: for its answer (mpqemu_read) one thread gives up the global lock and keeps the
// device's, the other takes the global lock and waits for the device's. With ",thread=single" a
// guest with two can hang as well.
func arguments(c *Config) []string {
	args := []string{
		"-accel", "tcg", "-cpu", "Nehalem,+aes,+pclmulqdq", "-smp", "1", "-m", strconv.Itoa(c.MemoryMB),
		"-object", fmt.Sprintf("memory-backend-memfd,id=ram,size=%dM,share=on", c.MemoryMB), "-nodefaults", "-no-user-config", "-display", "none",
		"-chardev", fmt.Sprintf("socket,id=port,fd=%d", firstFD), "-device", "virtio-serial-pci,addr=0x10",
		"-device", "virtserialport,chardev=port,name=agent",
	}
	for i := range c.GPUs {
		args = append(
			args,
			"-device",
			fmt.Sprintf("x-pci-proxy-dev,id=gpu%d,fd=%d,addr=0x%x", i, firstFD+1+i, 5+i),
		)
	}
	return args
}

// disks adds the virtio disks, which the guest finds by their serial numbers.
func disks(t testing.TB, c *Config) []string {
	t.Helper()
	var args []string
	slot := 0x12
	add := func(serial, path, options string) {
		args = append(
			args,
			"-drive",
			fmt.Sprintf("if=none,id=%s,format=raw,cache=unsafe,file=%s,%s", serial, path, options),
			"-device",
			fmt.Sprintf("virtio-blk-pci,drive=%s,serial=%s,addr=0x%x", serial, serial, slot),
		)
		slot++
	}
	if c.System != nil {
		add("root", c.System.Disk, "snapshot=on") // writes go to a temporary file
		return append(args, c.System.Arguments...)
	}
	add("host", c.Kernel.disk, "readonly=on")
	add("var", varDisk(t), "snapshot=on")
	for i, name := range sortedKeys(c.Images) {
		add(fmt.Sprint("image", i), c.Images[name].Disk, "readonly=on")
	}
	for i, name := range sortedKeys(c.Disks) {
		add(fmt.Sprint("disk", i), c.Disks[name], "readonly=on")
	}
	return args
}

// stop waits for QEMU's end, kills it after the limit, and ends the GPUs.
func (m *machine) stop(limit time.Duration) error {
	var err error
	select {
	case <-m.done:
	case <-time.After(limit):
		err = errors.Join(
			fmt.Errorf("it did not power off within %s and was killed", limit),
			m.cmd.Process.Kill(),
		)
		<-m.done
	}
	for _, g := range m.gpus {
		err = errors.Join(err, g.Close())
	}
	_ = m.port.Close()
	if m.serial != nil {
		_ = m.serial.Close()
	}
	return err
}

// end says how QEMU ended, if it has ended.
func (m *machine) end() error {
	select {
	case <-m.done:
		return fmt.Errorf(
			"QEMU ended: %w: %s",
			errors.Join(m.err),
			strings.TrimSpace(m.said.String()),
		)
	case <-time.After(time.Second):
		return errors.New("QEMU still runs, but its port is closed")
	}
}

func (m *machine) consoleText() string {
	text, err := os.ReadFile(m.console)
	if err != nil {
		return err.Error()
	}
	return strings.ReplaceAll(string(text), "\r", "")
}

// keepConsole copies the console's log to a folder that outlives a failed test, and logs the path.
func (m *machine) keepConsole() string {
	path := filepath.Join(
		CacheDir(m.t),
		"failed",
		strings.ReplaceAll(m.t.Name(), "/", "-")+".console",
	)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(m.consoleText()), 0o644)); err != nil {
		return err.Error()
	}
	return path
}

func socketPair(t testing.TB) (net.Conn, *os.File) {
	t.Helper()
	ours, theirs, err := gpu.SocketPair()
	require.NoError(t, err)
	return ours, theirs
}

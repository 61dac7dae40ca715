package lab

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/ci/lab/fakegpu"
	"github.com/driver-container/driver-container/ci/lab/wire"
)

// machine is a running QEMU.
type machine struct {
	t       testing.TB
	port    net.Conn
	cmd     *exec.Cmd
	gpus    []*fakegpu.GPU
	console string   // file
	serial  net.Conn // the console, if the test types on it
	done    chan struct{}
	err     error // of QEMU's end, valid after done
	said    strings.Builder
}

// firstFD is the file descriptor in QEMU of the first of exec.Cmd's ExtraFiles.
const firstFD = 3

// startMachine starts QEMU with one end of a socket as the agent's port and one for each GPU.
func startMachine(t testing.TB, c *Config) *machine {
	t.Helper()
	dir := t.TempDir()
	initramfs := filepath.Join(dir, "initramfs")
	c.Kernel.initramfs(t, initramfs)
	m := &machine{t: t, console: filepath.Join(dir, "console"), done: make(chan struct{})}
	port, theirs, err := socketPair()
	must(t, err)
	m.port = port
	files := []*os.File{theirs}
	for _, model := range c.GPUs {
		g, err := fakegpu.Serve(model)
		must(t, err)
		m.gpus, files = append(m.gpus, g), append(files, g.File)
	}
	args := append(arguments(c), disks(t, c)...)
	if c.Firmware != nil {
		args = append(args, c.Firmware.arguments(t, c, dir, initramfs, commandLine(c))...)
	} else {
		args = append(args, "-machine", "pc,memory-backend=ram", "-no-reboot", "-kernel", c.Kernel.image, "-initrd", initramfs, "-append", commandLine(c))
	}
	if c.Firmware != nil && c.Firmware.Debian {
		serial, end, err := socketPair()
		must(t, err)
		m.serial, files = serial, append(files, end)
		args = append(args, "-chardev", fmt.Sprintf("socket,id=console,fd=%d,logfile=%s", firstFD+len(files)-1, m.console), "-serial", "chardev:console")
	} else {
		args = append(args, "-serial", "file:"+m.console)
	}
	m.cmd = exec.Command("qemu-system-x86_64", args...)
	m.cmd.ExtraFiles = files
	m.cmd.Stdout, m.cmd.Stderr = &m.said, &m.said
	m.cmd.WaitDelay = time.Second
	// QEMU ends with the test even if the test is killed. It has a session of its own: a signal from the
	// keyboard is for the test.
	m.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setsid: true}
	err = m.cmd.Start()
	for _, f := range files {
		err = errors.Join(err, f.Close())
	}
	must(t, err)
	go func() {
		m.err = m.cmd.Wait()
		close(m.done)
	}()
	return m
}

func socketPair() (net.Conn, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("socket pair: %w", err)
	}
	mine, theirs := os.NewFile(uintptr(fds[0]), "port"), os.NewFile(uintptr(fds[1]), "port")
	conn, err := net.FileConn(mine)
	if err := errors.Join(err, mine.Close()); err != nil {
		return nil, nil, errors.Join(err, theirs.Close())
	}
	return conn, theirs, nil
}

// commandLine returns the kernel's command line.
func commandLine(c *Config) string {
	// Warnings go to the console too, for a guest that hangs. The log keeps all messages of the driver.
	kernel := "console=ttyS0 loglevel=5 panic=-1 log_buf_len=4M mitigations=off nosoftlockup " + c.CommandLine
	if c.NoHeaders {
		kernel += " " + wire.NoHeaders
	}
	return strings.TrimSpace(kernel)
}

// arguments returns QEMU's arguments, except those of the guest's boot, its console and its disks. They
// request software emulation, because KVM is often available and broken.
func arguments(c *Config) []string {
	args := []string{
		// Vectors wider than SSE are slow to emulate, and libraries use them if the processor has them.
		"-accel", "tcg,thread=multi", "-cpu", "Nehalem", "-smp", strconv.Itoa(c.CPUs), "-m", strconv.Itoa(c.MemoryMB),
		"-object", fmt.Sprintf("memory-backend-memfd,id=ram,size=%dM,share=on", c.MemoryMB),
		"-nodefaults", "-no-user-config", "-display", "none",
		"-chardev", fmt.Sprintf("socket,id=port,fd=%d", firstFD), "-device", "virtio-serial-pci,addr=0x10",
		"-device", "virtserialport,chardev=port,name=" + wire.Port,
	}
	for i := range c.GPUs {
		args = append(args, "-device", fmt.Sprintf("x-pci-proxy-dev,id=gpu%d,fd=%d,addr=0x%x", i, firstFD+1+i, 5+i))
	}
	if c.Network {
		args = append(args, "-netdev", "user,id=net", "-device", "virtio-net-pci,netdev=net,addr=0x11,romfile=")
	}
	return args
}

// disks adds the virtio disks, which the agent finds by their serial numbers.
func disks(t testing.TB, c *Config) []string {
	t.Helper()
	var args []string
	slot := 0x12
	add := func(serial, path, options string) {
		args = append(args, "-drive", fmt.Sprintf("if=none,id=%s,format=raw,cache=unsafe,file=%s,%s", serial, path, options),
			"-device", fmt.Sprintf("virtio-blk-pci,drive=%s,serial=%s,addr=0x%x", serial, serial, slot))
		slot++
	}
	add("host", c.Kernel.disk, "readonly=on")
	add("var", varDisk(t, c.DiskMB), "snapshot=on") // writes go to a temporary file
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
		err = errors.Join(fmt.Errorf("it did not power off within %s and was killed", limit), m.cmd.Process.Kill())
		<-m.done
	}
	_ = m.port.Close()
	if m.serial != nil {
		_ = m.serial.Close()
	}
	for _, g := range m.gpus {
		err = errors.Join(err, g.Close())
	}
	return err
}

// end says how QEMU ended, if it has ended.
func (m *machine) end() error {
	select {
	case <-m.done:
		return fmt.Errorf("QEMU ended: %w: %s", errors.Join(m.err), strings.TrimSpace(m.said.String()))
	case <-time.After(time.Second):
		return errors.New("QEMU still runs, but its port is closed")
	}
}

func (m *machine) consoleText() string {
	f, err := os.Open(m.console)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	text, err := io.ReadAll(f)
	if err != nil {
		return err.Error()
	}
	return strings.ReplaceAll(string(text), "\r", "")
}

// keepConsole copies the console's log to a folder that outlives a failed test, and logs the path.
func (m *machine) keepConsole() string {
	path := filepath.Join(cacheDir(m.t), "failed", strings.ReplaceAll(m.t.Name(), "/", "-")+".console")
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(m.consoleText()), 0o644)); err != nil {
		return err.Error()
	}
	return path
}

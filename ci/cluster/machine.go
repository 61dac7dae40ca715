package cluster

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
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
)

// machine is a running guest.
type machine struct {
	t       testing.TB
	cmd     *exec.Cmd
	monitor *qmp
	shell   *shell
	api     int    // port on this machine's loopback
	console string // file
	said    strings.Builder
	done    chan struct{}
	err     error // of its end, after done
	gpus    []*fakegpu.GPU
}

const (
	memoryMB = 2048
	firstFD  = 3 // of the first of exec.Cmd's ExtraFiles
)

// hardware returns the arguments that must be the same when a state is restored.
func hardware() []string {
	return []string{
		// Vectors wider than SSE are slow to emulate, and programs use them if the processor has them. Instructions
		// for AES save time.
		"-accel", "tcg,thread=multi,tb-size=512", "-cpu", "Nehalem,+aes,+pclmulqdq", "-smp", "2", "-m", strconv.Itoa(memoryMB),
		// A fake GPU needs memory that can be shared with another process.
		"-object", fmt.Sprintf("memory-backend-memfd,id=ram,size=%dM,share=on", memoryMB), "-machine", "pc,memory-backend=ram",
		"-nodefaults", "-no-user-config", "-display", "none", "-device", "virtio-serial-pci,addr=0x4", "-device", "virtserialport,chardev=shell,name=shell",
		"-device", "virtio-blk-pci,drive=root,addr=0x5", "-device", "virtio-net-pci,netdev=net,addr=0x6,romfile=", "-device", "virtio-rng-pci,addr=0x7",
		"-append", "console=ttyS0 loglevel=5 log_buf_len=4M mitigations=off random.trust_cpu=on net.ifnames=0 audit=0 nokaslr panic=-1 systemd.show_status=0",
	}
}

// startMachine starts the guest from a disk, and from a state unless that is nil. registry is the port of
// this machine that the guest reaches as guestRegistry. The machine ends with the test.
func startMachine(t testing.TB, b base, disk string, registry int, state *os.File) *machine {
	t.Helper()
	const attempts = 5
	for n := 1; ; n++ {
		m, err := tryMachine(t, b, disk, registry, state)
		if err == nil {
			t.Cleanup(m.kill)
			return m
		}
		// Another process may take the port between its choice and QEMU's start.
		if !strings.Contains(err.Error(), "host forwarding") || n == attempts {
			t.Fatalf("start the guest: %v", err)
		}
	}
}

func tryMachine(t testing.TB, b base, disk string, registry int, state *os.File) (*machine, error) {
	t.Helper()
	m := &machine{t: t, api: freePort(t), console: filepath.Join(t.TempDir(), "console"), done: make(chan struct{})}
	monitor, monitorEnd := socketPair(t)
	sh, shellEnd := socketPair(t)
	files := []*os.File{monitorEnd, shellEnd}
	args := append(hardware(),
		"-serial", "file:"+m.console, "-kernel", b.vmlinux, "-initrd", filepath.Join(b.dir, "initramfs"),
		"-drive", "if=none,id=root,format=qcow2,cache=unsafe,discard=unmap,file="+disk,
		"-chardev", fmt.Sprintf("socket,id=monitor,fd=%d", firstFD), "-mon", "chardev=monitor,mode=control",
		"-chardev", fmt.Sprintf("socket,id=shell,fd=%d", firstFD+1),
		"-netdev", fmt.Sprintf("user,id=net,hostfwd=tcp:127.0.0.1:%d-:443,guestfwd=tcp:%s-cmd:busybox nc 127.0.0.1 %d", m.api, guestRegistry, registry))
	if state != nil {
		args, files = append(args, "-incoming", fmt.Sprintf("fd:%d", firstFD+len(files))), append(files, state)
	}
	m.cmd = exec.Command("qemu-system-x86_64", args...)
	m.cmd.ExtraFiles, m.cmd.Stdout, m.cmd.Stderr, m.cmd.WaitDelay = files, &m.said, &m.said, time.Second
	// QEMU ends with the test even if the test is killed; a signal from the keyboard is for the test.
	m.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setsid: true}
	must(t, m.cmd.Start())
	must(t, errors.Join(monitorEnd.Close(), shellEnd.Close()))
	go func() {
		m.err = m.cmd.Wait()
		close(m.done)
	}()
	m.shell = newShell(sh)
	var err error
	if m.monitor, err = newQMP(monitor); err != nil {
		m.kill()
		return nil, fmt.Errorf("%w: QEMU: %w: %s", err, errors.Join(m.err), strings.TrimSpace(m.said.String()))
	}
	return m, nil
}

// kill ends the guest, and then the GPUs.
func (m *machine) kill() {
	_ = m.cmd.Process.Kill()
	<-m.done
	_ = m.shell.conn.Close()
	if m.monitor != nil {
		_ = m.monitor.conn.Close()
	}
	for _, g := range m.gpus {
		if err := g.Close(); err != nil {
			m.t.Errorf("fake GPU: %v", err)
		}
	}
	m.gpus = nil
}

// quit ends the guest in such a way that its disk is complete.
func (m *machine) quit() {
	m.t.Helper()
	must(m.t, m.monitor.do("quit", nil, nil))
	select {
	case <-m.done:
	case <-time.After(qmpLimit):
		m.t.Fatalf("QEMU does not quit within %s", qmpLimit)
	}
}

// plug hot-adds a GPU. slot is the number on the PCI bus, 9 and up.
func (m *machine) plug(model fakegpu.Model, slot int) {
	m.t.Helper()
	g, err := fakegpu.Serve(model)
	must(m.t, err)
	m.gpus = append(m.gpus, g)
	name := fmt.Sprintf("gpu%d", slot)
	must(m.t, m.monitor.give(name, g.File))
	must(m.t, m.monitor.do("device_add", map[string]string{"driver": "x-pci-proxy-dev", "id": name, "fd": name, "addr": fmt.Sprintf("0x%x", slot)}, nil))
	must(m.t, g.File.Close())
}

func (m *machine) consoleText() string {
	text, err := os.ReadFile(m.console)
	if err != nil {
		return err.Error()
	}
	return strings.ReplaceAll(string(text), "\r", "")
}

// freePort returns a port of loopback on which no process listens now.
func freePort(t testing.TB) int {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	must(t, err)
	must(t, l.Close())
	return portOf(t, l)
}

func portOf(t testing.TB, l net.Listener) int {
	t.Helper()
	address, err := netip.ParseAddrPort(l.Addr().String())
	must(t, err)
	return int(address.Port())
}

// socketPair returns this process's end and QEMU's.
func socketPair(t testing.TB) (*net.UnixConn, *os.File) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	mine, theirs := os.NewFile(uintptr(fds[0]), "socket"), os.NewFile(uintptr(fds[1]), "socket")
	conn, err := net.FileConn(mine)
	must(t, errors.Join(err, mine.Close()))
	unixConn, ok := conn.(*net.UnixConn)
	if !ok {
		t.Fatalf("socket pair: %T", conn)
	}
	return unixConn, theirs
}

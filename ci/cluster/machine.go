package cluster

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/lab"
	"github.com/driver-container/driver-container/ci/lab/qemu"
	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

// machine is a running guest.
type machine struct {
	*qemu.Process
	t       testing.TB
	monitor *qmp
	agent   *lab.Client // of ci/lab, as root on the node
	port    net.Conn    // the agent's
	api     int         // port on this machine's loopback
	console string      // file
}

// hardware returns the arguments that must be the same when a state is restored. Instructions for AES save
// time. With two processors, guests hang now and then: see [qemu.Hardware].
func hardware() []string {
	const memoryMB = 2048
	return append(qemu.Hardware(",tb-size=512", ",+aes,+pclmulqdq", 1, memoryMB), "-machine", "pc,memory-backend=ram",
		"-device", "virtio-serial-pci,addr=0x4", "-device", "virtserialport,chardev=agent,name=agent",
		"-device", "virtio-blk-pci,drive=root,addr=0x5",
		"-device", "virtio-net-pci,netdev=net,addr=0x6,romfile=", "-device", "virtio-rng-pci,addr=0x7",
		"-append", "console=ttyS0 loglevel=5 log_buf_len=4M mitigations=off "+
			"random.trust_cpu=on net.ifnames=0 audit=0 nokaslr panic=-1 systemd.show_status=0")
}

// startMachine starts the guest from a disk, and from a state unless that is nil. registry is the port of
// this machine that the guest reaches as guestRegistry. The machine ends with the test.
func startMachine(t testing.TB, b base, disk string, registry int, state *os.File) *machine {
	t.Helper()
	l := require.Value(net.Listen("tcp4", "127.0.0.1:0"))(t) // a port on which no process listens now
	require.NoError(t, l.Close())
	m := &machine{t: t, api: portOf(t, l), console: filepath.Join(t.TempDir(), "console")}
	monitor, monitorEnd := qemu.SocketPair(t)
	port, portEnd := qemu.SocketPair(t)
	files := []*os.File{monitorEnd, portEnd}
	args := append(hardware(),
		"-serial", "file:"+m.console, "-kernel", b.vmlinux, "-initrd", filepath.Join(b.dir, "initramfs"),
		"-drive", "if=none,id=root,format=qcow2,cache=unsafe,discard=unmap,file="+disk,
		"-chardev", fmt.Sprintf("socket,id=monitor,fd=%d", qemu.FirstFD), "-mon", "chardev=monitor,mode=control",
		"-chardev", fmt.Sprintf("socket,id=agent,fd=%d", qemu.FirstFD+1),
		"-netdev", fmt.Sprintf("user,id=net,hostfwd=tcp:127.0.0.1:%d-:443,guestfwd=tcp:%s-cmd:busybox nc 127.0.0.1 %d",
			m.api, guestRegistry, registry))
	if state != nil {
		args, files = append(args, "-incoming", fmt.Sprintf("fd:%d", qemu.FirstFD+len(files))), append(files, state)
	}
	var err error
	m.Process, err = qemu.Start(args, files...)
	require.NoError(t, errors.Join(err, monitorEnd.Close(), portEnd.Close()))
	m.agent, m.port = lab.Connect(port), port
	t.Cleanup(m.kill)
	m.monitor, err = newQMP(monitor)
	require.NoErrorf(t, err, "start the guest: QEMU says %s", m.Said.String())
	return m
}

// kill ends the guest, and then the GPUs.
func (m *machine) kill() {
	_ = m.Kill()
	<-m.Done
	_ = m.port.Close()
	if m.monitor != nil {
		_ = m.monitor.conn.Close()
	}
	assert.NoErrorf(m.t, m.Stop(qmpLimit), "fake GPU")
}

// quit ends the guest in such a way that its disk is complete.
func (m *machine) quit() {
	m.t.Helper()
	require.NoError(m.t, m.monitor.do("quit", nil, nil))
	select {
	case <-m.Done:
	case <-time.After(qmpLimit):
		m.t.Fatalf("QEMU does not quit within %s", qmpLimit)
	}
}

// plug hot-adds a GPU.
func (m *machine) plug(model qemu.Model) {
	m.t.Helper()
	g := qemu.Serve(m.t, model)
	m.Own(g)
	require.NoError(m.t, m.monitor.give("gpu", g.File))
	device := map[string]string{"driver": "x-pci-proxy-dev", "id": "gpu", "fd": "gpu", "addr": "0x9"}
	require.NoError(m.t, m.monitor.do("device_add", device, nil))
	require.NoError(m.t, g.File.Close())
}

func (m *machine) consoleText() string { return qemu.ReadConsole(m.console) }

func portOf(t testing.TB, l net.Listener) int {
	t.Helper()
	address := require.Value(netip.ParseAddrPort(l.Addr().String()))(t)
	return int(address.Port())
}

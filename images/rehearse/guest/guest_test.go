package guest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/images/rehearse/gpu"
)

// standIn plays QEMU: descriptor 3 is the port, 4 the console. A guest that answers ends with the first request.
const standIn = `#!/bin/sh
case $* in
"-device help") echo 'name "x-pci-proxy-dev", bus PCI'; exit ;;
*"-accel kvm"*) echo "no KVM" >&2; exit 1 ;;
esac
`

const (
	answers = `echo '{"Kind":"ready","Text":"6.1\u001b[2J"}' >&3; head -n 1 <&3 >/dev/null`
	panics  = `printf '\033[31mKernel \007panic\r\n' >&4; echo "terminating" >&2; exit 3`
	hangs   = `exec sleep 1000`
)

// config describes a guest of files without meaning, in which QEMU is the stand-in with a script.
func config(t *testing.T, script string) Config {
	t.Helper()
	bin := t.TempDir()
	if script != "" {
		testfile.WriteMode(t, filepath.Join(bin, "qemu-system-x86_64"), standIn+script+"\n", 0o755)
	}
	t.Setenv("PATH", bin+":/usr/bin:/bin:/usr/sbin:/sbin")
	file := filepath.Join(bin, "a,file")
	testfile.Write(t, file, "content")
	kernel := &Kernel{Image: file, Disk: file, BootModules: []string{file, file}}
	return Config{Kernel: kernel, Program: file, GPUs: []gpu.Model{gpu.T4}, Dir: t.TempDir()}
}

func TestStart(t *testing.T) {
	c := config(t, answers)
	require.NoError(t, os.Mkdir(filepath.Join(c.Dir, "rehearse-killed"), 0o755))
	notice := ""
	c.Notify = func(text string) { notice = text }
	g := require.Value(Start(t.Context(), c))(t)
	assert.Equal(t, TCG, g.Accel)
	assert.Equal(t, `6.1\x1b[2J`, g.Release)
	assert.Contains(t, notice, "the guest is emulated, which takes ten times as long: ")
	require.NoError(t, g.Close(t.Context()))
	assert.Equalf(t, 0, len(require.Value(os.ReadDir(c.Dir))(t)), "what is left")
}

// TestNoGuest: each error names its reason and what to do, and nothing is left.
func TestNoGuest(t *testing.T) {
	for name, test := range map[string]struct {
		script string
		edit   func(c *Config)
		want   []string
	}{
		"QEMU ends":      {panics, nil, []string{"the guest ended while it booted: QEMU ended: exit status 3: terminating"}},
		"no memory":      {`echo "cannot set up guest memory 'ram': Cannot allocate memory" >&2; exit 1`, nil, []string{"Cannot allocate memory; is there less memory than the 1400 MiB of the guest"}},
		"QEMU hangs":     {hangs, nil, []string{"boot a guest: context deadline exceeded"}},
		"no kernel":      {answers, func(c *Config) { c.Program = "/no/such/file" }, []string{"make the guest's initramfs: ", "/no/such/file"}},
		"too many disks": {answers, func(c *Config) { c.GPUs = make([]gpu.Model, 20) }, []string{"a guest has at most 11 GPUs and 11 disks"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := config(t, test.script)
			c.Accel = TCG
			if test.edit != nil {
				test.edit(&c)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			_, err := Start(ctx, c)
			assert.ErrorContains(t, err, test.want...)
			assert.Equalf(t, 0, len(require.Value(os.ReadDir(c.Dir))(t)), "what is left")
		})
	}
}

// TestQEMUEnds: whatever ends QEMU, at a boot and later, the error says how it ended and what to do, on one line.
// The process is gone, and nothing is left.
func TestQEMUEnds(t *testing.T) {
	const running = `echo $$ >"$PIDFILE"; `
	stages := map[string]string{"boots": running + hangs, "serves": running + `echo '{"Kind":"ready","Text":"6.1"}' >&3; ` + hangs}
	for name, test := range map[string]struct {
		end  func(t *testing.T, pid int, cancel func())
		want []string
	}{
		"killed":     {sends(syscall.SIGKILL), []string{"QEMU ended: signal: killed; is there less memory than the 1400 MiB"}},
		"terminated": {sends(syscall.SIGTERM), []string{"QEMU ended: signal: terminated"}},
		"stopped":    {func(_ *testing.T, _ int, cancel func()) { cancel() }, []string{"stopped by its user"}},
	} {
		for stage, script := range stages {
			t.Run(name+" when it "+stage, func(t *testing.T) {
				c := config(t, script)
				c.Accel = TCG
				file := filepath.Join(t.TempDir(), "pid")
				t.Setenv("PIDFILE", file)
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				ended := make(chan int, 1)
				go func() {
					pid := waitPID(ctx, file)
					time.Sleep(200 * time.Millisecond) // the guest waits for an answer
					test.end(t, pid, func() { cancel(errors.New("stopped by its user")) })
					ended <- pid
				}()
				g, err := Start(ctx, c)
				if stage == "serves" {
					require.NoError(t, err)
					err = assert.Err(g.Run(ctx, "true"))
					_ = g.Close(ctx) // its end is known
				}
				assert.ErrorContains(t, err, test.want...)
				assert.Equalf(t, 1, len(strings.Split(err.Error(), "\n")), "lines of %q", err)
				assert.ErrorIs(t, syscall.Kill(<-ended, 0), syscall.ESRCH)
				assert.Equalf(t, 0, len(require.Value(os.ReadDir(c.Dir))(t)), "what is left")
			})
		}
	}
}

func sends(s syscall.Signal) func(*testing.T, int, func()) {
	return func(t *testing.T, pid int, _ func()) { assert.NoError(t, syscall.Kill(pid, s)) }
}

// waitPID returns the PID that a stand-in writes.
func waitPID(ctx context.Context, file string) int {
	for ctx.Err() == nil {
		text, _ := os.ReadFile(file) //nolint:errcheck // it is not there yet
		pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err == nil {
			return pid
		}
		time.Sleep(10 * time.Millisecond)
	}
	return 0
}

func TestNoQEMU(t *testing.T) {
	c := config(t, "")
	t.Setenv("PATH", c.Dir)
	err := CheckTools(t.Context())
	assert.ErrorContains(t, err, "QEMU is not on this machine: install qemu-system-x86 (Debian, Ubuntu)", "qemu-kvm (RHEL)")
	testfile.WriteMode(t, filepath.Join(c.Dir, "qemu-system-x86_64"), "#!/bin/sh\necho name '\"virtio\"'\n", 0o755)
	err = CheckTools(t.Context())
	assert.ErrorContains(t, err, "has no device x-pci-proxy-dev", "Debian 12 (qemu-system-x86)")
	_, err = Start(t.Context(), c)
	assert.ErrorContains(t, err, "has no device x-pci-proxy-dev")
}

// TestConsole: an error has the console, without what a terminal obeys, and of a long one the end.
func TestConsole(t *testing.T) {
	c := config(t, panics)
	c.Accel = TCG
	_, err := Start(t.Context(), c)
	assert.Equal(t, "Kernel \\apanic\n", require.ErrorAs[*BootError](t, err).Console)
	var long lastPart
	for range 100 {
		_, _ = long.Write([]byte(strings.Repeat("x\n", 100_000)))
	}
	text := long.String()
	if len(text) > 2*maxConsole+100 || !strings.HasPrefix(text, "[what came before is left out]\n") {
		t.Errorf("%d bytes: %.40q", len(text), text)
	}
}

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/images/rehearse/wire"
)

const path = "PATH=/usr/sbin:/usr/bin:/sbin:/bin"

// boot makes the host, starts the agent and waits for it, as process 1 does for all orphans.
func boot() error {
	setup, err := prepare()
	if err != nil {
		return err
	}
	err = buildRoot(setup)
	if err != nil {
		return err
	}
	err = enterRoot()
	if err != nil {
		return err
	}
	err = finish()
	if err != nil {
		return err
	}
	return runAgent()
}

// prepare mounts what the initramfs needs, inserts its modules and returns its setup.
func prepare() (setup wire.Setup, err error) {
	text, err := os.ReadFile(wire.SetupFile)
	if err != nil {
		return setup, err
	}
	err = json.Unmarshal(text, &setup)
	if err != nil {
		return setup, fmt.Errorf("%s: %w", wire.SetupFile, err)
	}
	err = mountAll("/", []mount{{"proc", "proc", 0, ""}, {"sysfs", "sys", 0, ""}, {"devtmpfs", "dev", 0, ""}})
	if err != nil {
		return setup, err
	}
	for _, file := range setup.Modules {
		err := insert(file)
		if err != nil {
			return setup, fmt.Errorf("insert %s: %w", file, err)
		}
	}
	return setup, nil
}

// insert inserts a module and removes its file, which is in memory. A module that is there, or
// built in, is none to insert.
func insert(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	err = unix.FinitModule(int(f.Fd()), "", 0)
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return err
	}
	return os.Remove(file)
}

// enterRoot makes the new root the only one: of the folder that the process is in.
func enterRoot() error {
	for _, old := range []string{"/dev", "/sys", "/proc"} {
		err := unix.Unmount(old, unix.MNT_DETACH)
		if err != nil {
			return fmt.Errorf("unmount %s of the initramfs: %w", old, err)
		}
	}
	err := unix.Mount(".", "/", "", unix.MS_MOVE, "")
	if err != nil {
		return fmt.Errorf("move the new root: %w", err)
	}
	err = unix.Chroot(".")
	if err != nil {
		return err
	}
	err = os.Chdir("/")
	if err != nil {
		return err
	}
	return unix.Mount("", "/", "", unix.MS_SHARED|unix.MS_REC, "")
}

// finish does what needs programs of the host.
func finish() error {
	_, err := os.Stat("/sys/firmware/efi")
	if err == nil {
		_ = command("modprobe", "efivarfs").Run() // it may be built in: mount says what is
		err := mountAll("/", []mount{{"efivarfs", "sys/firmware/efi/efivars", secure, ""}})
		if err != nil {
			return err
		}
	}
	out, err := command("ip", "link", "set", "lo", "up").CombinedOutput()
	if err != nil {
		return fmt.Errorf("set up the loopback device: %w: %s", err, out)
	}
	return nil
}

func command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command("/bin/"+name, args...)
	cmd.Env = []string{path}
	return cmd
}

// runAgent starts this program once more, at the port, and returns when that has ended.
func runAgent() error {
	var port *os.File
	err := eventually(func() bool {
		names, _ := filepath.Glob("/dev/vport*p1") // the pattern is right
		if len(names) == 0 {
			return false
		}
		f, err := os.OpenFile(names[0], os.O_RDWR, 0)
		port = f
		return err == nil
	})
	if err != nil {
		return fmt.Errorf("open the port to the other machine: %w", err)
	}
	agent := exec.Command("/proc/self/exe")
	agent.Env = []string{path, "HOME=/root"}
	agent.Stdin = port
	agent.Stderr = os.Stderr
	err = agent.Start()
	if err != nil {
		return fmt.Errorf("start the agent: %w", err)
	}
	for {
		pid, err := unix.Wait4(-1, nil, 0, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return fmt.Errorf("wait for processes: %w", err)
		}
		if pid == agent.Process.Pid {
			return errors.New("the agent has ended")
		}
	}
}

func powerOff() { restart(unix.LINUX_REBOOT_CMD_POWER_OFF) }

// restart asks the kernel itself, so that no process delays it.
func restart(how int) {
	unix.Sync()
	_ = unix.Reboot(how) // it comes back if this process is not privileged
}

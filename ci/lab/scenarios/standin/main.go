// Command standin replaces nvidia-persistenced in scenarios where the daemon has to fail. It goes to the
// background, holds the driver, writes the pid file, answers on the socket, and ends on SIGTERM. With "fails"
// in the file /drivers/standin it ends at once with an error, with "hangs" it never goes to the background.
package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	dir    = "/var/run/nvidia-persistenced"
	socket = dir + "/socket"
	pid    = dir + "/nvidia-persistenced.pid"
)

func main() {
	err := start()
	if os.Getenv("STANDIN_BACKGROUND") != "" {
		err = serve()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "stand-in for nvidia-persistenced:", err)
		os.Exit(1)
	}
}

// start returns when the process in the background answers. In that process it does nothing.
func start() error {
	if os.Getenv("STANDIN_BACKGROUND") != "" {
		return nil
	}
	mode, err := os.ReadFile("/drivers/standin")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	switch strings.TrimSpace(string(mode)) {
	case "fails":
		return errors.New("it was told to fail")
	case "hangs":
		<-time.After(time.Hour)
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), "STANDIN_BACKGROUND=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	cmd.ExtraFiles = []*os.File{w}
	if err := cmd.Start(); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	if n, err := r.Read(make([]byte, 1)); n != 1 {
		return fmt.Errorf("the process in the background ended: %w", err)
	}
	return nil
}

func serve() error {
	held, err := os.OpenFile("/dev/nvidiactl", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer held.Close() //nolint:errcheck // the end of the process
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	if err := os.WriteFile(pid, []byte(strconv.Itoa(os.Getpid())+"\n"), 0o644); err != nil {
		return err
	}
	ready := os.NewFile(3, "ready")
	if _, err := ready.Write([]byte{1}); err != nil {
		return err
	}
	if err := ready.Close(); err != nil {
		return err
	}
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			_ = c.Close()
		}
	}()
	<-stop
	return errors.Join(listener.Close(), os.Remove(pid))
}

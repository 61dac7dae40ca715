package gpu

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// smiReport is what `nvidia-smi -q -x` prints: the reference. driver-probe's fallback reads another format of
// nvidia-smi, so that the two can be compared.
type smiReport struct {
	Driver string   `xml:"driver_version"`
	GPUs   []smiGPU `xml:"gpu"`
}

type smiGPU struct {
	Address     string `xml:"id,attr"` // 00000000:05:00.0
	Name        string `xml:"product_name"`
	UUID        string `xml:"uuid"`
	Minor       string `xml:"minor_number"`
	ID          string `xml:"pci>pci_device_id"` // 233510DE: device and vendor
	Total       string `xml:"fb_memory_usage>total"`
	Reserved    string `xml:"fb_memory_usage>reserved"`
	Used        string `xml:"fb_memory_usage>used"`
	Utilization string `xml:"utilization>gpu_util"`
}

// sysfsAddress returns the address as the kernel writes it: 0000:05:00.0.
func (g smiGPU) sysfsAddress() string {
	domain, rest, _ := strings.Cut(strings.ToLower(g.Address), ":")
	if domain = strings.TrimLeft(domain, "0"); len(domain) < 4 {
		domain = strings.Repeat("0", 4-len(domain)) + domain
	}
	return domain + ":" + rest
}

// number reads "143771 MiB" or "37 %"; ok is false where the GPU does not have the value: "N/A".
func number(text string) (n uint64, ok bool) {
	digits, _, _ := strings.Cut(strings.TrimSpace(text), " ")
	n, err := strconv.ParseUint(digits, 10, 64)
	return n, err == nil
}

// askSMI returns nvidia-smi's report.
func (s *session) askSMI(ctx context.Context) (smiReport, error) {
	var r smiReport
	out, err := s.run(ctx, nil, s.smi, "-q", "-x")
	if err != nil {
		return r, err
	}
	if err := xml.Unmarshal(out, &r); err != nil {
		return r, fmt.Errorf("read the report of %s: %w", s.smi, err)
	}
	return r, nil
}

// outputLimit bounds what a program may print. The report of eight GPUs has 200 KB.
const outputLimit = 8 << 20

// run starts a program with more environment, gives it s.Timeout, and returns its output. It kills the
// program's whole process group.
func (s *session) run(ctx context.Context, env []string, name string, args ...string) ([]byte, error) {
	return s.runWith(ctx, append(append([]string{}, s.env...), env...), name, args...)
}

// runWith is run with exactly this environment.
func (s *session) runWith(ctx context.Context, env []string, name string, args ...string) ([]byte, error) {
	timeout, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	cmd := exec.CommandContext(timeout, name, args...)
	var stdout, stderr limited
	cmd.Env, cmd.Stdout, cmd.Stderr = env, &stdout, &stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 2 * time.Second
	err := cmd.Run()
	switch {
	case timeout.Err() != nil:
		return nil, fmt.Errorf("%s %s did not answer within %v and was killed: a GPU may hang", name, strings.Join(args, " "), s.Timeout)
	case err != nil:
		return nil, fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, lastLine(stderr.Bytes(), stdout.Bytes()))
	case stdout.Len() >= outputLimit:
		return nil, fmt.Errorf("%s printed more than %d bytes", name, outputLimit)
	}
	return stdout.Bytes(), nil
}

// limited keeps the first outputLimit bytes.
type limited struct{ bytes.Buffer }

func (l *limited) Write(p []byte) (int, error) {
	l.Buffer.Write(p[:min(len(p), outputLimit-l.Len())])
	return len(p), nil
}

// lastLine returns the last line of the first text that has one.
func lastLine(texts ...[]byte) string {
	for _, t := range texts {
		if t = bytes.TrimSpace(t); len(t) > 0 {
			return string(t[bytes.LastIndexByte(t, '\n')+1:])
		}
	}
	return "no output"
}

// exitCode returns the exit code of a program, -1 if it did not end by itself.
func exitCode(err error) int {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode()
	}
	return -1
}

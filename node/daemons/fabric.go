package daemons

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Paths of NVIDIA's packages for the fabric manager and the NVLink subnet manager.
const (
	fmProgram = "usr/bin/nv-fabricmanager"
	fmScript  = "usr/bin/nvidia-fabricmanager-start.sh"
	fmConfig  = "usr/share/nvidia/nvswitch/fabricmanager.cfg"
	fmRun     = "var/run/nvidia-fabricmanager"
	smConfig  = "usr/share/nvidia/nvlsm/nvlsm.conf"
)

// FabricManager returns the fabric daemons that the machine needs: none without NVSwitch; nv-fabricmanager
// where the kernel driver has switches; fabric manager and NVLink subnet manager, started by NVIDIA's script,
// where the switches are managed through an InfiniBand device (NVLink 5: SW_MNG in its vital product data).
// f.Fabric changes the configuration that the daemons get; the image's own file stays unchanged. An error
// says that the image lacks a program that the machine needs.
//
// They are run as daemons that fork, although the configuration has DAEMONIZE=0: only the exit code of the
// forking program says that the fabric was set up.
func FabricManager(f Facts) ([]Spec, error) {
	f = f.withDefaults()
	five, switches := f.nvlink5(), f.nvswitch()
	if !five && !switches {
		return nil, nil
	}
	if err := checkSettings(f.Fabric); err != nil {
		return nil, err
	}
	needs := []string{fmConfig, fmProgram}
	if five {
		needs = append(needs, fmScript, smConfig)
	}
	for _, name := range needs {
		if !f.has(name) {
			return nil, fmt.Errorf("this node has NVLink switches and the image no /%s: GPUs would report CUDA error 802; use an image with the fabric "+
				"manager of this driver version", name)
		}
	}
	s := Spec{
		Name: "nvidia-fabricmanager", Path: f.path(fmProgram), Required: true,
		Args:      []string{"-c", f.config()},
		PIDFile:   f.path(fmRun + "/nv-fabricmanager.pid"),
		Before:    func(context.Context) error { return f.configure() },
		StartWait: 5 * time.Minute, StopWait: 15 * time.Second,
	}
	if five {
		f.subnetManager(&s)
	}
	return []Spec{s}, nil
}

// subnetManager changes the spec to run NVIDIA's script, which starts both daemons.
func (f Facts) subnetManager(s *Spec) {
	s.Name = "nvidia-fabricmanager with nvlsm"
	s.Path, s.Programs = f.path(fmScript), []string{fmProgram, "nvlsm"}
	s.Also = []string{f.path(fmRun + "/nvlsm.pid")}
	s.Args = []string{
		"--mode", "start", "--fm-config-file", f.config(), "--fm-pid-file", s.PIDFile,
		"--nvlsm-config-file", f.path(smConfig), "--nvlsm-pid-file", s.Also[0],
	}
	s.StartWait += f.Wait
	s.Before = func(ctx context.Context) error {
		if err := f.modules(ctx, "mlx5_core", "ib_umad"); err != nil {
			return err
		}
		return f.configure()
	}
	if f.Fabric["FABRIC_MODE"] == "1" {
		// GPUs keep the partitions of the former mode until they are reset. The reset runs only once and not at
		// every restart, because the GPUs may be in use by then.
		s.After = func(ctx context.Context) error { return f.resetGPUs(ctx) }
	}
}

func (f Facts) config() string { return filepath.Join(f.Work, "fabricmanager.cfg") }

// nvlink5 says whether the machine has switches that are managed through an InfiniBand device.
func (f Facts) nvlink5() bool {
	files, err := filepath.Glob(filepath.Join(f.Sys, "class/infiniband/*/device/vpd"))
	return err == nil && slices.ContainsFunc(files, func(name string) bool {
		file, err := os.Open(name)
		if err != nil {
			return false
		}
		defer file.Close()
		// 32 KiB is the largest size of vital product data; devices return an error at the end of theirs.
		data, _ := io.ReadAll(io.LimitReader(file, 1<<15))
		return bytes.Contains(data, []byte("SW_MNG"))
	})
}

func (f Facts) nvswitch() bool {
	entries, err := os.ReadDir(filepath.Join(f.Proc, "driver/nvidia-nvswitch/devices"))
	return err == nil && len(entries) > 0
}

// modules waits at most f.Wait for kernel modules.
func (f Facts) modules(ctx context.Context, names ...string) error {
	ctx, cancel := context.WithTimeout(ctx, f.Wait)
	defer cancel()
	return until(ctx, min(time.Second, f.Wait/10), func() error {
		missing := slices.DeleteFunc(slices.Clone(names), func(name string) bool {
			_, err := os.Stat(filepath.Join(f.Sys, "module", name))
			return err == nil
		})
		if len(missing) == 0 {
			return nil
		}
		return fmt.Errorf("the NVLink switches of this node are managed over InfiniBand, and kernel module %s is not loaded within %v: install the network "+
			"driver (MOFED/DOCA) or load the module on the node", strings.Join(missing, ", "), f.Wait)
	})
}

// checkSettings refuses names and values that are not valid, and settings that the supervisor depends on.
func checkSettings(settings map[string]string) error {
	bad := func(r rune) bool { return (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' }
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		var why string
		switch {
		case key == "" || strings.ContainsFunc(key, bad):
			why = "not the name of a fabric manager setting (A-Z, 0-9, _)"
		case strings.ContainsAny(settings[key], "\x00\n\r"):
			why = "the value has more than one line"
		case key == "DAEMONIZE" || key == "PID_FILE_PATH":
			why = "this setting belongs to the supervisor of the fabric manager; remove it"
		default:
			continue
		}
		return fmt.Errorf("environment variable NVFM_CONFIG_%s: %s", key, why)
	}
	return nil
}

// configure writes the configuration with the settings applied, and creates the folder that the fabric
// manager expects.
func (f Facts) configure() error {
	text, err := readConfig(f.path(fmConfig))
	if err != nil {
		return fmt.Errorf("configure the fabric manager: %w", err)
	}
	if err := os.MkdirAll(f.path(fmRun), 0o755); err != nil {
		return fmt.Errorf("configure the fabric manager: %w", err)
	}
	if err := writeFile(f.config(), apply(text, f.Fabric)); err != nil {
		return fmt.Errorf("configure the fabric manager: %w", err)
	}
	return nil
}

// apply replaces KEY=value lines and appends the missing ones, sorted. It switches DAEMONIZE on if the image
// has switched it off.
func apply(text []byte, settings map[string]string) []byte {
	var out bytes.Buffer
	done := map[string]bool{}
	for line := range bytes.Lines(text) {
		key, _, found := strings.Cut(string(line), "=")
		key = strings.TrimSpace(key)
		value, set := settings[key]
		switch {
		case found && key == "DAEMONIZE":
			out.WriteString("DAEMONIZE=1\n")
		case found && set && !done[key]:
			fmt.Fprintf(&out, "%s=%s\n", key, value)
			done[key] = true
		case found && set:
		default:
			out.Write(line)
		}
	}
	if b := out.Bytes(); len(b) > 0 && b[len(b)-1] != '\n' {
		out.WriteByte('\n')
	}
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		if !done[key] {
			fmt.Fprintf(&out, "%s=%s\n", key, settings[key])
		}
	}
	return out.Bytes()
}

// resetGPUs runs nvidia-smi -r, which is killed when ctx ends.
func (f Facts) resetGPUs(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, f.path("usr/bin/nvidia-smi"), "-r")
	cmd.WaitDelay = time.Second
	ended := make(chan error, 1)
	var out []byte
	go func() {
		var err error
		out, err = cmd.CombinedOutput()
		ended <- err
	}()
	var err error
	select {
	case err = <-ended:
	case <-ctx.Done(): // it may hang in the kernel: wait only a limited time
		select {
		case err = <-ended:
		case <-time.After(killTimeout):
			return errors.New("reset the GPUs after the change of FABRIC_MODE: nvidia-smi -r hangs and cannot be killed")
		}
	}
	if err != nil {
		return fmt.Errorf("reset the GPUs after the change of FABRIC_MODE: nvidia-smi -r: %w: %.300s", err, bytes.TrimSpace(out))
	}
	return nil
}

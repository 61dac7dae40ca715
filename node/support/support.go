// Package support collects the facts of a node for a support request in one tar archive.
//
// It reads and changes nothing. It takes no environment, no arguments and no files of users: what
// it takes of the machine is about NVIDIA's devices, modules and mounts.
package support

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/driver-container/driver-container/distros/bounded"
	"github.com/driver-container/driver-container/distros/lazyregexp"
	"github.com/driver-container/driver-container/kmod/kmsg"
	"github.com/driver-container/driver-container/node/devices"
)

// Bounds of an archive. A part that is larger is cut.
const (
	maxPart  = 1 << 20          // bytes
	partWait = 30 * time.Second // a driver that hangs must not hang the archive
)

// Part is one file of the archive.
type Part struct {
	Name  string
	Write func(io.Writer) error
}

// ErrLeftOut says that parts are missing, incomplete or cut. Its text has the reasons, as
// left-out.txt in the archive.
var ErrLeftOut = errors.New("the archive is not complete")

// Write writes the parts as a tar archive. What it could get of a part that failed is in the
// archive. The error is ErrLeftOut, or that of out, whose archive is useless then.
func Write(out io.Writer, now time.Time, parts []Part) error {
	w := tar.NewWriter(out)
	add := func(name string, data []byte) error {
		err := w.WriteHeader(&tar.Header{Name: "nvidia-driver/" + name, Mode: 0o644, Size: int64(len(data)), ModTime: now.Truncate(time.Second)})
		if err == nil {
			_, err = w.Write(data)
		}
		return err
	}
	var leftOut []error
	for _, p := range parts {
		data, err := p.read()
		if err != nil {
			leftOut = append(leftOut, fmt.Errorf("%s: %w", p.Name, err))
		}
		if err := add(p.Name, data); err != nil {
			return fmt.Errorf("write the archive: %w", err)
		}
	}
	why := errors.Join(leftOut...)
	if why != nil {
		if err := add("left-out.txt", []byte(why.Error()+"\n")); err != nil {
			return fmt.Errorf("write the archive: %w", err)
		}
		why = fmt.Errorf("%w: %v", ErrLeftOut, why) //nolint:errorlint // a part's kind of error is not that of the archive
	}
	if err := w.Close(); err != nil {
		return fmt.Errorf("write the archive: %w", err)
	}
	return why
}

// read returns what a part writes, and why it is not all. A part that hangs in the kernel is left
// behind.
func (p Part) read() ([]byte, error) {
	text := bounded.Buffer{Limit: maxPart}
	done := make(chan error, 1)
	go func() { done <- p.Write(&text) }()
	select {
	case err := <-done:
		if text.More {
			err = errors.Join(err, bounded.TooLarge(maxPart))
		}
		return text.Kept, err
	case <-time.After(partWait):
		return nil, fmt.Errorf("no answer within %s", partWait)
	}
}

// ours marks the lines of the kernel's log, its arguments, modules and mounts that say something
// about the driver.
var ours = lazyregexp.New(
	`(?i)nvidia|nvrm|xid|nouveau|nvswitch|gdrdrv|mlx5|lockdown|secure ?boot|module verification|taint|iommu|modprobe|pci(e|hp|_|=|\.)|out of memory|hung_task|blocked for more`,
)

// driverFiles are the driver's and the modules' own words, below the machine's root.
var driverFiles = []string{
	"proc/driver/nvidia/version",
	"proc/driver/nvidia/params",
	"proc/driver/nvidia/registry",
	"proc/driver/nvidia/gpus/*/information",
	"sys/module/nvidia*/version",
	"sys/module/nvidia*/srcversion",
	"sys/module/nvidia*/taint",
	"sys/module/nvidia*/refcnt",
	"sys/module/nvidia*/parameters/*",
	"sys/module/firmware_class/parameters/path",
}

// pciFiles are what sysfs says about each function of NVIDIA and Mellanox. Links say where they
// lead.
var pciFiles = []string{
	"subsystem_vendor",
	"subsystem_device",
	"driver_override",
	"numa_node",
	"iommu_group",
	"enable",
	"power/runtime_status",
	"current_link_speed",
	"current_link_width",
	"max_link_speed",
	"max_link_width",
	"physfn",
	"resource",
}

// Machine returns the parts about the machine whose root is given ("/"): the driver's parameters,
// PCI devices, modules, mounts, systems, the kernel's log, and the logs of compiles in state.
func Machine(root, state string) []Part {
	at := func(path string) string { return filepath.Join(root, path) }
	return []Part{
		{"parameters.txt", func(w io.Writer) error { return files(w, at, driverFiles...) }},
		{"pci.txt", func(w io.Writer) error { return pci(w, at) }},
		{"modules.txt", func(w io.Writer) error { return lines(w, at("proc/modules"), ours()) }},
		{"mounts.txt", func(w io.Writer) error {
			return errors.Join(
				lines(w, at("proc/self/mountinfo"), ours()),
				lines(w, at("proc/1/mountinfo"), ours()),
			)
		}},
		{"system.txt", func(w io.Writer) error { return system(w, at) }},
		{"kernel.log", kernelLog},
		{"compile.log", func(w io.Writer) error {
			return files(
				w,
				func(path string) string { return path },
				filepath.Join(state, "log/*.log"),
			)
		}},
	}
}

// files writes the files that match the patterns, each below its path. A pattern without files is
// no error.
func files(w io.Writer, at func(string) string, patterns ...string) error {
	var errs []error
	for _, pattern := range patterns {
		paths, err := filepath.Glob(at(pattern))
		errs = append(errs, err)
		for _, path := range paths {
			text, err := bounded.Text(path, maxPart)
			// some parameters can only be written
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
				continue
			}
			errs = append(errs, err)
			if _, err := fmt.Fprintf(w, "%s:\n%s\n", path, kmsg.PrintableLines(strings.TrimSpace(text))); err != nil {
				return err
			}
		}
	}
	return errors.Join(errs...)
}

// lines writes the lines of a file that match.
func lines(w io.Writer, path string, match *regexp.Regexp) error {
	text, err := bounded.Text(path, 4*maxPart)
	if err != nil {
		return err
	}
	return write(
		w,
		slices.DeleteFunc(
			strings.Split(text, "\n"),
			func(line string) bool { return !match.MatchString(line) },
		),
	)
}

func write(w io.Writer, lines []string) error {
	for _, line := range lines {
		if _, err := fmt.Fprintln(w, kmsg.PrintableLines(line)); err != nil {
			return err
		}
	}
	return nil
}

// pci writes the functions of NVIDIA and Mellanox and what sysfs says about each.
func pci(w io.Writer, at func(string) string) error {
	all, err := devices.Functions(
		at("sys"),
		func(f devices.Function) bool { return f.Vendor == devices.NVIDIA || f.Vendor == devices.Mellanox },
	)
	for _, f := range all {
		text := []string{
			fmt.Sprintf(
				"%s vendor %04x device %04x class %06x driver %q",
				f.Address,
				f.Vendor,
				f.Device,
				f.Class,
				f.Driver,
			),
		}
		for _, name := range pciFiles {
			path := filepath.Join(at("sys/bus/pci/devices"), f.Address, name)
			value, err := os.Readlink(path)
			if err != nil {
				value = strings.TrimSpace(string(bounded.Head(path, 1<<12)))
			}
			if value != "" {
				text = append(text, "    "+name+": "+strings.ReplaceAll(value, "\n", "\n        "))
			}
		}
		if err := write(w, text); err != nil {
			return err
		}
	}
	return err
}

// system writes the kernel, those of its arguments that are about the driver, and the systems of
// the image and of the host.
func system(w io.Writer, at func(string) string) error {
	text, err := bounded.Text(at("proc/cmdline"), 1<<16)
	arguments := slices.DeleteFunc(
		strings.Fields(text),
		func(word string) bool { return !ours().MatchString(word) },
	)
	return errors.Join(
		err,
		files(
			w,
			at,
			"proc/version",
			"proc/sys/kernel/tainted",
			"sys/kernel/security/lockdown",
			"etc/os-release",
			"proc/1/root/etc/os-release",
		),
		write(w, append([]string{"kernel arguments about the driver:"}, arguments...)),
	)
}

// kernelLog writes the lines of the kernel's whole log that are about the driver.
func kernelLog(w io.Writer) error {
	found, err := kmsg.Matching(ours())
	return errors.Join(err, write(w, found))
}

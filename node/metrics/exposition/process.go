package exposition

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/distros/bounded"
)

const (
	maxProc = 1 << 20 // bytes of one file of /proc that is read here; /proc/stat has a line for each processor
	ticks   = 100     // USER_HZ: the unit of times in /proc, the same on every architecture that Linux runs on
)

var (
	cpuSeconds    = counter("process_cpu_seconds_total", "Processor time of this process in seconds, user and system.")
	openFiles     = gauge("process_open_fds", "Open file descriptors.")
	maxFiles      = gauge("process_max_fds", "Limit of open file descriptors.")
	resident      = gauge("process_resident_memory_bytes", "Resident memory in bytes.")
	virtual       = gauge("process_virtual_memory_bytes", "Virtual memory in bytes.")
	maxVirtual    = gauge("process_virtual_memory_max_bytes", "Limit of the virtual memory in bytes.")
	startTime     = gauge("process_start_time_seconds", "Seconds since 1970 of the start of the process.")
	receivedBytes = counter("process_network_receive_bytes_total", "Bytes that the process's network namespace received.")
	sentBytes     = counter("process_network_transmit_bytes_total", "Bytes that the process's network namespace sent.")
)

// AddProcess adds the metrics of this process, from a /proc folder. It adds what can be read, and says in the
// error what could not.
func (p *Page) AddProcess(proc string) error {
	return errors.Join(p.addStat(proc), p.addLimits(proc), p.addNetwork(proc))
}

// addStat reads stat, whose second field is the program's name in parentheses, with any characters.
func (p *Page) addStat(proc string) error {
	text, err := bounded.Text(filepath.Join(proc, "self/stat"), maxProc)
	if err != nil {
		return err
	}
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	values := make([]float64, len(fields))
	for i, f := range fields {
		values[i], _ = strconv.ParseFloat(f, 64) //nolint:errcheck // the first one is a letter
	}
	const user, system, began, size, pages = 11, 12, 19, 20, 21 // proc(5) counts from 1, and from two fields before
	if len(values) <= pages {
		return fmt.Errorf("read %s/self/stat: %d fields after the name", proc, len(values))
	}
	p.Add(cpuSeconds, (values[user]+values[system])/ticks)
	p.Add(virtual, values[size])
	p.Add(resident, values[pages]*float64(os.Getpagesize()))
	text, err = bounded.Text(filepath.Join(proc, "stat"), maxProc)
	if err != nil {
		return err
	}
	_, boot, _ := strings.Cut(text, "\nbtime ")
	boot, _, _ = strings.Cut(boot, "\n")
	seconds, err := strconv.ParseFloat(boot, 64)
	if err != nil {
		return fmt.Errorf("read %s/stat: btime: %w", proc, err)
	}
	p.Add(startTime, seconds+values[began]/ticks)
	return nil
}

func (p *Page) addLimits(proc string) error {
	for resource, m := range map[int]Metric{unix.RLIMIT_NOFILE: maxFiles, unix.RLIMIT_AS: maxVirtual} {
		var limit unix.Rlimit
		if err := unix.Getrlimit(resource, &limit); err != nil {
			return fmt.Errorf("ask for the limit %d: %w", resource, err)
		}
		value := float64(limit.Cur)
		if limit.Cur == unix.RLIM_INFINITY {
			value = math.MaxUint64
		}
		p.Add(m, value)
	}
	open, err := os.ReadDir(filepath.Join(proc, "self/fd"))
	if err != nil {
		return err
	}
	p.Add(openFiles, float64(len(open)))
	return nil
}

// addNetwork reads the line pair IpExt of netstat: names, then values.
func (p *Page) addNetwork(proc string) error {
	text, err := bounded.Text(filepath.Join(proc, "self/net/netstat"), maxProc)
	if err != nil {
		return err
	}
	var names []string
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		switch {
		case len(fields) == 0 || fields[0] != "IpExt:":
		case names == nil:
			names = fields
		default:
			for i := range min(len(names), len(fields)) {
				m, known := map[string]Metric{"InOctets": receivedBytes, "OutOctets": sentBytes}[names[i]]
				value, err := strconv.ParseFloat(fields[i], 64)
				if known && err == nil {
					p.Add(m, value)
				}
			}
			return nil
		}
	}
	return fmt.Errorf("read %s/self/net/netstat: no values of IpExt", proc)
}

package kmod

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Params returns the values that the parameters of a loaded module have now: those in sysfs and,
// for nvidia, which shows only some of its own there, those of /proc/driver/nvidia/params under
// their parameter names (with the prefix NVreg_). It leaves out values that only root may write.
// The error wraps fs.ErrNotExist when the module is neither loaded nor built in.
func (s System) Params(name string) (map[string]string, error) {
	m, err := s.Module(name)
	if err != nil {
		return nil, err
	}
	params := map[string]string{}
	if m.Name == "nvidia" {
		text, err := readSmall(s.proc("driver", "nvidia", "params"), maxConfig)
		if err != nil && !isNotExist(err) {
			return nil, fmt.Errorf("read the live parameters of nvidia: %w", err)
		}
		parseNvidiaParams(text, params)
	}
	dir := s.sys("module", m.Name, "parameters")
	entries, err := os.ReadDir(dir)
	if err != nil && !isNotExist(err) {
		return nil, fmt.Errorf("read the live parameters of %s: %w", m.Name, err)
	}
	for _, e := range entries {
		value, err := readSmall(filepath.Join(dir, e.Name()), maxSmall)
		if err != nil {
			continue // some parameters can only be written
		}
		params[e.Name()] = value
	}
	return params, nil
}

// parseNvidiaParams reads lines such as `EnableMSI: 1` and `RegistryDwords: "a=1"`.
func parseNvidiaParams(text string, into map[string]string) {
	for line := range strings.Lines(text) {
		name, value, ok := strings.Cut(line, ":")
		name = strings.TrimSpace(name)
		if !ok || name == "" || strings.ContainsAny(name, " \t") {
			continue
		}
		value = strings.TrimSpace(value)
		if len(value) > 1 && value[0] == '"' && value[len(value)-1] == '"' {
			value = value[1 : len(value)-1]
		}
		into["NVreg_"+name] = value
	}
}

// Differences compares the parameters that a module was to get ("name=value") with its live ones
// and describes each difference. It skips a parameter that the module does not show. Numbers are
// equal in any notation (0x10, 020, 16; -1 and 4294967295), and so are y, 1 and true.
func Differences(want []string, live map[string]string) []string {
	var found []string
	for _, p := range want {
		name, value, assigned := strings.Cut(p, "=")
		if !assigned {
			value = "1" // the kernel's value for a switch that is given by its name only
		}
		have, shown := live[name]
		if !shown {
			have, shown = live[ModuleName(name)]
		}
		if shown && !sameValue(value, have) {
			found = append(found, name+" is "+have+", wanted "+value)
		}
	}
	return found
}

func sameValue(a, b string) bool {
	if a == b {
		return true
	}
	x, okX := number(a)
	y, okY := number(b)
	return okX && okY && (x == y || uint32(x) == uint32(y) && narrow(x) && narrow(y))
}

// narrow reports whether n is a 32 bit number, with or without a sign. An unsigned parameter shows
// -1 as 4294967295.
func narrow(n uint64) bool { return n <= 1<<32-1 || n >= 1<<64-1<<31 }

func number(s string) (uint64, bool) {
	switch s {
	case "Y", "y", "true", "on":
		return 1, true
	case "N", "n", "false", "off":
		return 0, true
	}
	digits, negative := strings.CutPrefix(s, "-")
	n, err := strconv.ParseUint(digits, 0, 64)
	if err != nil {
		return 0, false
	}
	if negative {
		n = -n
	}
	return n, true
}

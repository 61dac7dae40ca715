package kmod

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Params reads the values that a loaded module has now: those in sysfs, and for nvidia, which shows its own there only in
// part, those of /proc/driver/nvidia/params, under the names that they have as parameters (with NVreg_ in front). Values that
// only root may write are left out. The error wraps fs.ErrNotExist when the module is neither loaded nor built in.
func (s System) Params(name string) (map[string]string, error) {
	m, err := s.Module(name)
	if err != nil {
		return nil, err
	}
	params := map[string]string{}
	if m.Name == "nvidia" {
		if text, err := readSmall(s.proc("driver", "nvidia", "params"), maxConfig); err == nil {
			parseNvidiaParams(text, params)
		} else if !notThere(err) {
			return nil, fmt.Errorf("read the live parameters of nvidia: %w", err)
		}
	}
	dir := s.sys("module", m.Name, "parameters")
	entries, err := os.ReadDir(dir)
	if err != nil && !notThere(err) {
		return nil, fmt.Errorf("read the live parameters of %s: %w", m.Name, err)
	}
	for _, e := range entries {
		if value, err := readSmall(filepath.Join(dir, e.Name()), maxSmall); err == nil { // some are for writing only
			params[e.Name()] = value
		}
	}
	return params, nil
}

// parseNvidiaParams takes lines such as `EnableMSI: 1` and `RegistryDwords: "a=1"`.
func parseNvidiaParams(text string, into map[string]string) {
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		name, value, ok := strings.Cut(lines.Text(), ":")
		if name = strings.TrimSpace(name); !ok || name == "" || strings.ContainsAny(name, " \t") {
			continue
		}
		value = strings.TrimSpace(value)
		if len(value) > 1 && value[0] == '"' && value[len(value)-1] == '"' {
			value = value[1 : len(value)-1]
		}
		into["NVreg_"+name] = value
	}
}

// Differences compares the parameters that a module was to get ("name=value") with its live ones and describes each that
// differs. One that the module does not show cannot be compared and is not mentioned. Numbers are equal whatever their
// notation (0x10, 020, 16, -1 and 4294967295), and so are y, 1 and true.
func Differences(want []string, live map[string]string) []string {
	var found []string
	for _, p := range want {
		name, value, assigned := strings.Cut(p, "=")
		if !assigned {
			value = "1" // as the kernel takes a bare name of a switch
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

// narrow: a 32 bit number, with or without a sign. -1 is shown as 4294967295 by an unsigned parameter.
func narrow(n uint64) bool { return n <= 1<<32-1 || n >= 1<<64-1<<31 }

func number(s string) (uint64, bool) {
	switch s {
	case "Y", "y", "true", "on":
		return 1, true
	case "N", "n", "false", "off":
		return 0, true
	}
	if n, err := strconv.ParseInt(s, 0, 64); err == nil {
		return uint64(n), true
	}
	n, err := strconv.ParseUint(s, 0, 64)
	return n, err == nil
}

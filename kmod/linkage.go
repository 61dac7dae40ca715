package kmod

import (
	"errors"
	"fmt"
	"strings"

	"github.com/driver-container/driver-container/distros/elffile"
)

// maxExports bounds the names of exported symbols, in bytes. nvidia.ko has 5 KiB.
const maxExports = 4 << 20

// Linkage is what depmod reads of a module: how other modules and devices find it.
type Linkage struct {
	Depends  []string // modules that it needs, with _
	Aliases  []string // of devices: "pci:v000010DEd*sv*sd*bc03sc00i00*"
	Softdeps []string // "pre: ipmi_msghandler"
	Exports  []string // symbols that it offers to other modules
}

// ReadLinkage reads a module file, as ReadInfo does.
func ReadLinkage(path string) (l Linkage, err error) {
	m, err := openModule(path)
	if err != nil {
		return l, fmt.Errorf("read the module %s: %w", path, err)
	}
	defer m.Close()
	f, err := elffile.Read(m.data, m.size)
	var raw []byte
	if err == nil {
		raw, err = f.Section(".modinfo", maxModinfo)
	}
	if err == nil {
		l.Exports, err = Exports(f)
	}
	if err != nil {
		return l, fmt.Errorf("read the module %s: %w: %w", path, ErrFormat, err)
	}
	l.Depends = parseModinfo(raw).Depends
	for entry := range strings.SplitSeq(string(raw), "\x00") {
		switch key, value, _ := strings.Cut(entry, "="); key {
		case "alias":
			l.Aliases = append(l.Aliases, value)
		case "softdep":
			l.Softdeps = append(l.Softdeps, value)
		}
	}
	return l, nil
}

// Exports returns the symbols that a module offers to other modules.
func Exports(f *elffile.File) ([]string, error) {
	names, err := f.Section("__ksymtab_strings", maxExports)
	if err != nil && !errors.Is(err, elffile.ErrNoSection) {
		return nil, err
	}
	return strings.FieldsFunc(string(names), func(r rune) bool { return r == 0 }), nil
}

package kernelmodules

import (
	"fmt"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/kmod"
)

// module is a module of a folder.
type module struct {
	file string // "nvidia-uvm.ko"
	name string // "nvidia_uvm"
	kmod.Linkage
}

// file is one of those that depmod writes.
type file struct {
	name    string
	content []byte
}

// depmod returns the files that depmod writes into a folder with these modules, sorted by name. Dependencies
// on modules that the folder does not have are left out, as depmod does. The indexes of modules that are
// built into the kernel are empty ones.
func depmod(modules []module) ([]file, error) {
	modules = slices.Clone(modules)
	slices.SortFunc(modules, func(a, b module) int { return strings.Compare(a.file, b.file) })
	dep, alias, softdep, symbols := &strings.Builder{}, &strings.Builder{}, &strings.Builder{}, &strings.Builder{}
	alias.WriteString("# Aliases extracted from modules themselves.\n")
	softdep.WriteString("# Soft dependencies extracted from modules themselves.\n")
	symbols.WriteString("# Aliases for symbols, used by symbol_request().\n")
	var deps, aliases, exports []entry
	for i, m := range modules {
		needs, err := dependencies(modules, m.name, nil)
		if err != nil {
			return nil, err
		}
		line := strings.Join(append([]string{m.file + ":"}, needs...), " ")
		dep.WriteString(line + "\n")
		deps = append(deps, entry{m.name, line, i})
		for _, a := range m.Aliases {
			fmt.Fprintf(alias, "alias %s %s\n", a, m.name)
			aliases = append(aliases, entry{normalize(a), m.name, i})
		}
		for _, s := range m.Softdeps {
			fmt.Fprintf(softdep, "softdep %s %s\n", m.name, s)
		}
		for _, s := range slices.Sorted(slices.Values(m.Exports)) {
			fmt.Fprintf(symbols, "alias symbol:%s %s\n", s, m.name)
			exports = append(exports, entry{"symbol:" + s, m.name, i})
		}
	}
	files := []file{
		{"modules.alias", []byte(alias.String())}, {"modules.alias.bin", nil}, {"modules.builtin.alias.bin", nil}, {"modules.builtin.bin", nil},
		{"modules.dep", []byte(dep.String())}, {"modules.dep.bin", nil}, {"modules.devname", nil}, {"modules.softdep", []byte(softdep.String())},
		{"modules.symbols", []byte(symbols.String())}, {"modules.symbols.bin", nil},
	}
	indexes := map[string][]entry{"modules.alias.bin": aliases, "modules.dep.bin": deps, "modules.symbols.bin": exports}
	for i, f := range files {
		var err error
		if strings.HasSuffix(f.name, ".bin") {
			if files[i].content, err = writeIndex(indexes[f.name]); err != nil {
				return nil, fmt.Errorf("%s: %w", f.name, err)
			}
		}
	}
	return files, nil
}

// dependencies are the files of the modules that a module needs, each before those that it needs itself:
// modprobe loads them from the last to the first.
func dependencies(modules []module, name string, above []string) (files []string, err error) {
	i := slices.IndexFunc(modules, func(m module) bool { return m.name == name })
	if i < 0 {
		return nil, nil // a module of the kernel's own tree
	}
	if slices.Contains(above, name) {
		return nil, fmt.Errorf("the modules %s need each other", strings.Join(append(above, name), ", "))
	}
	above = append(slices.Clone(above), name)
	for _, need := range slices.Sorted(slices.Values(modules[i].Depends)) {
		at := slices.IndexFunc(modules, func(m module) bool { return m.name == need })
		if at < 0 {
			continue
		}
		below, err := dependencies(modules, need, above)
		if err != nil {
			return nil, err
		}
		files = append(files, modules[at].file)
		files = append(files, below...)
	}
	// A file that two others need is loaded before both: its last place counts.
	slices.Reverse(files)
	seen := map[string]bool{}
	files = slices.DeleteFunc(files, func(f string) bool {
		again := seen[f]
		seen[f] = true
		return again
	})
	slices.Reverse(files)
	return files, nil
}

// normalize is an alias as modprobe looks it up: with _ instead of -, except in sets of characters.
func normalize(alias string) string {
	out, inSet := []byte(alias), false
	for i, c := range out {
		switch {
		case c == '[':
			inSet = true
		case c == ']':
			inSet = false
		case c == '-' && !inSet:
			out[i] = '_'
		}
	}
	return string(out)
}

package preflight

import (
	"path"
	"path/filepath"
	"strings"
)

// hash says whether the kernel can compute a hash, such as "sha512": it has the hash, or can load a module
// for it on demand. The kernel loads modules with the host's modprobe in the host's root, whatever the
// container has.
func (in *Input) hash(name string) presence {
	text, err := readSmall(filepath.Join(in.Proc, "crypto"), maxKeys)
	if err != nil {
		return unknown
	}
	for line := range strings.Lines(text) {
		key, v, _ := strings.Cut(line, ":")
		if strings.TrimSpace(key) == "name" && strings.TrimSpace(v) == name {
			return present
		}
	}
	root, err := in.host()
	if err != nil {
		if !in.bare() {
			return unknown
		}
		root = in.Root
	}
	helper, err := readSmall(filepath.Join(in.Proc, "sys/kernel/modprobe"), maxSmall)
	if err != nil {
		helper = "/sbin/modprobe"
	}
	if helper = strings.TrimSpace(helper); helper == "" || disabled(in) {
		return absent
	}
	if file, err := within(root, helper); err != nil || !exists(file) {
		return absent
	}
	for _, dir := range []string{"lib/modules", "usr/lib/modules"} {
		tree, err := within(root, path.Join(dir, in.Release))
		if err != nil {
			continue
		}
		if hasModule(filepath.Join(tree, "modules.dep"), name+"_generic") || hasModule(filepath.Join(tree, "modules.dep"), name) ||
			hasAlias(filepath.Join(tree, "modules.alias"), "crypto-"+name) {
			return loadable
		}
	}
	return absent
}

// hasAlias says whether modules.alias has a name: "alias crypto-sha512 sha512_generic".
func hasAlias(index, name string) bool {
	text, err := readSmall(index, maxIndex)
	return err == nil && strings.Contains("\n"+text, "\nalias "+name+" ")
}

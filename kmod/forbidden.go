//go:build linux

package kmod

import (
	"slices"
	"strings"
)

// initFunctions are the functions with which the driver's modules start, by module.
var initFunctions = map[string]string{
	"nvidia": "nvidia_init_module", "nvidia_uvm": "uvm_init_entry", "nvidia_modeset": "nvkms_init", "nvidia_drm": "nv_linux_drm_init",
}

// Forbidden returns the setting of this machine that makes the kernel refuse a module with EPERM; "" for none.
// modprobe.blacklist= is no such setting: only modprobe reads it, which the driver's container does not use.
func (s System) Forbidden(module string) (setting string) {
	if v, err := readSmall(s.proc("sys", "kernel", "modules_disabled"), maxSmall); err == nil && v == "1" {
		return "kernel.modules_disabled=1"
	}
	line, err := readSmall(s.proc("cmdline"), maxSmall)
	if err != nil {
		return ""
	}
	name, modules, functions := ModuleName(module), []string(nil), []string(nil)
	for word := range strings.FieldsSeq(line) {
		option, list, _ := strings.Cut(strings.ReplaceAll(word, `"`, ""), "=")
		switch ModuleName(option) {
		case "module_blacklist": // the last one counts
			modules = strings.Split(list, ",")
		case "initcall_blacklist":
			functions = append(functions, strings.Split(list, ",")...)
		}
	}
	if slices.Contains(modules, name) {
		return "module_blacklist=" + name
	}
	if f := initFunctions[name]; f != "" && slices.Contains(functions, f) {
		return "initcall_blacklist=" + f
	}
	return ""
}

//go:build linux

package kmod

import (
	"cmp"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// RefusedError says that the kernel refused a module, or that the module's own start failed.
type RefusedError struct {
	Module string     // its name
	Path   string     // its file
	Params []string   // "name=value", as given
	Errno  unix.Errno // the kernel's answer; errors.Is(err, unix.ENODEV) works
	Kernel []string   // what the kernel logged during the load, also messages of its other parts
	// of this machine, which forbids the load: "module_blacklist=nvidia"; "": none
	Setting string
}

// Error implements error: what failed, why in plain words with the fix, the error number's name,
// and the end of the kernel's log. The text of the number would mislead: ENOENT is a missing symbol
// and no file, ENOPKG no package.
func (e *RefusedError) Error() string {
	text := "the kernel refused the module " + e.Module + " (" + e.Path + "): " + e.Reason() + " (" + cmp.Or(
		unix.ErrnoName(e.Errno),
		e.Errno.Error(),
	) + ")"
	if tail := e.tail(3); len(tail) > 0 {
		text += `; kernel log: "` + strings.Join(tail, `" | "`) + `"`
	}
	return text
}

// Unwrap returns the error number, for errors.Is and errors.As.
func (e *RefusedError) Unwrap() error { return e.Errno }

// tail returns the last n lines of the kernel's log that seem to be about modules, or else the last
// n of all.
func (e *RefusedError) tail(n int) []string {
	ours := slices.DeleteFunc(slices.Clone(e.Kernel), func(line string) bool {
		return !strings.Contains(line, "NVRM") && !strings.Contains(line, "odule") &&
			!strings.Contains(line, "nvidia") &&
			!strings.Contains(line, e.Module+":")
	})
	if len(ours) == 0 {
		ours = e.Kernel
	}
	return ours[max(0, len(ours)-n):]
}

// Reason explains the refusal in one line for people: why, and what to do. It quotes the kernel or
// the driver where their message says more than the error number.
func (e *RefusedError) Reason() string {
	if e.Errno == unix.EPERM && e.Setting != "" {
		return "a setting of this machine forbids it (" + e.Setting + "): take it out of the kernel's command line or sysctl.d, and restart the machine"
	}
	text := joinMessages(e.Kernel)
	for _, r := range reasons {
		if r.errnos != "" && !slices.Contains(strings.Fields(r.errnos), unix.ErrnoName(e.Errno)) {
			continue
		}
		quote, found := findSentence(text, r.phrase)
		if !found {
			continue
		}
		if r.quote && quote != "" {
			return r.why + " (" + quote + "): " + r.fix
		}
		return r.why + ": " + r.fix
	}
	return "the module's own start failed: look into the kernel's log (dmesg) for its reason"
}

// joinMessages joins log lines into one text: the lines of one message of the driver form one line,
// every other line stays alone.
func joinMessages(lines []string) string {
	var driver, rest []string
	for _, line := range lines {
		if _, text, ok := strings.Cut(line, "NVRM:"); ok {
			driver = append(driver, strings.Fields(text)...)
		} else {
			rest = append(rest, line)
		}
	}
	return " " + strings.Join(driver, " ") + "\n" + strings.Join(rest, "\n")
}

// findSentence finds the sentence or line that contains a phrase. The empty phrase is in every text
// and quotes the driver's message.
func findSentence(text, phrase string) (quote string, found bool) {
	before, after, found := strings.Cut(text, phrase)
	if !found {
		return "", false
	}
	before = before[strings.LastIndexByte(before, '\n')+1:]
	if i := strings.LastIndex(before, ". "); i >= 0 {
		before = before[i+2:]
	}
	after, _, _ = strings.Cut(after, "\n")
	if phrase != "" {
		after, _, _ = strings.Cut(after, ". ")
	}
	quote = strings.TrimSuffix(strings.TrimSpace(before+phrase+after), ".")
	if len(quote) > 400 {
		quote = strings.ToValidUTF8(quote[:400], "") + "..."
	}
	return quote, true
}

// initFunctions are the functions with which the driver's modules start, by module.
var initFunctions = map[string]string{
	"nvidia": "nvidia_init_module", "nvidia_uvm": "uvm_init_entry", "nvidia_modeset": "nvkms_init", "nvidia_drm": "nv_linux_drm_init",
}

// Forbidden returns the setting of this machine that makes the kernel refuse a module with EPERM;
// "" for none. modprobe.blacklist= is no such setting: only modprobe reads it, which the driver's
// container does not use.
func (s System) Forbidden(module string) (setting string) {
	if optional(s.proc("sys", "kernel", "modules_disabled")) == "1" {
		return "kernel.modules_disabled=1"
	}
	name := ModuleName(module)
	var modules, functions []string
	for word := range strings.FieldsSeq(optional(s.proc("cmdline"))) {
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

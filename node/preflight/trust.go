package preflight

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros/bounded"
)

// trust says what the kernel requires of a module.
type trust struct {
	enforced   bool   // only modules that are signed by a key of the kernel
	lockdown   string // "none", "integrity", "confidentiality"; "" when it cannot be read
	secureBoot bool   // according to the firmware; shim can switch the validation off nevertheless
	// read from the kernel itself: then enforced and lockdown count, whatever the firmware says
	known bool

	efi bool // started by UEFI: keys can be enrolled
}

// strict says whether the kernel refuses a module without a signature. Lockdown refuses it with
// EPERM, enforcement with EKEYREJECTED.
func (t trust) strict() bool {
	return t.enforced || t.lockdown == "integrity" || t.lockdown == "confidentiality"
}

// sysRoots returns the paths of sysfs. securityfs and efivarfs are mounts of their own; a container
// has them only when the host's sysfs is visible.
func (in *Input) sysRoots() []string {
	host, err := in.host()
	if err != nil {
		return []string{in.Sys}
	}
	return []string{in.Sys, filepath.Join(host, "sys")}
}

// readTrust reads the kernel's files and, where these are not visible, the kernel command line and
// the variables of the firmware.
func (in *Input) readTrust() trust {
	roots := in.sysRoots()
	var t trust
	for _, sys := range roots {
		if v := value(sys, "module/module/parameters/sig_enforce"); v != "" {
			t.enforced = v == "Y" || v == "1"
			t.known = true
			break
		}
	}
	for _, sys := range roots {
		t.lockdown = bracketed(value(sys, "kernel/security/lockdown"))
		if t.lockdown != "" {
			break
		}
	}
	t.secureBoot = slices.ContainsFunc(roots, bootsSecurely)
	t.efi = slices.ContainsFunc(roots, func(sys string) bool { return exists(sys, "firmware/efi") })
	t.fromCommandLine(value(in.Proc, "cmdline"))
	return t
}

// bootsSecurely reads the variable of the firmware: four bytes of attributes and one of value.
func bootsSecurely(sys string) bool {
	files, err := filepath.Glob(filepath.Join(sys, "firmware/efi/efivars/SecureBoot-*"))
	if err != nil || len(files) == 0 {
		return false
	}
	data, err := bounded.Text(files[0], maxSmall)
	return err == nil && len(data) == 5 && data[4] == 1
}

func (t *trust) fromCommandLine(line string) {
	for word := range strings.FieldsSeq(line) {
		name, v, _ := strings.Cut(word, "=")
		switch strings.ReplaceAll(name, "-", "_") {
		case "module.sig_enforce":
			// Without a value the parameter means yes. A kernel that was built with enforcement
			// ignores a no.
			t.enforced = t.enforced || slices.Contains([]string{"", "1", "y", "Y", "on"}, v)
		case "lockdown":
			if t.lockdown == "" {
				t.lockdown = v
			}
		}
	}
}

// bracketed returns the word in brackets: "none [integrity] confidentiality".
func bracketed(s string) string {
	_, s, found := strings.Cut(s, "[")
	word, _, closed := strings.Cut(s, "]")
	if !found || !closed {
		return ""
	}
	return word
}

// requirement says why modules have to be signed, and what a user would switch off in order to load
// unsigned ones.
func (t trust) requirement() (reason, what string) {
	switch {
	case t.enforced && t.secureBoot:
		return "Secure Boot is on and the kernel loads signed modules only", "Secure Boot"
	case t.enforced:
		return "the kernel loads signed modules only (module.sig_enforce)", "module.sig_enforce"
	case t.strict():
		return "the kernel is locked down (" + t.lockdown + ") and loads signed modules only", "lockdown"
	case t.secureBoot && !t.known:
		return "Secure Boot is on; whether the kernel asks for signatures cannot be seen from here", "Secure Boot"
	case t.secureBoot:
		return "the kernel takes modules without a signature, although Secure Boot is on in the firmware (mokutil --disable-validation switches it off in shim)", ""
	default:
		return "the kernel takes modules without a signature", ""
	}
}

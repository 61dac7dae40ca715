package preflight

import (
	"path/filepath"
	"slices"
	"strings"
)

// trust is what the kernel demands of a module.
type trust struct {
	enforced   bool   // only modules with a signature by a key that it knows
	lockdown   string // "none", "integrity", "confidentiality"; "" when it cannot be read
	secureBoot bool   // as the firmware says; a shim can switch the validation off all the same
	known      bool   // the kernel itself told: enforced and lockdown count, whatever the firmware says
}

// strict says whether a module without a signature is refused. Lockdown refuses it with EPERM, enforcement with EKEYREJECTED.
func (t trust) strict() bool {
	return t.enforced || t.lockdown == "integrity" || t.lockdown == "confidentiality"
}

// readTrust asks the kernel, and where its files are not to be seen, the kernel command line and the firmware. securityfs and
// efivarfs are mounts of their own, which a container has only when it sees the host's.
func (in *Input) readTrust() trust {
	roots := []string{in.Sys}
	if host, err := in.host(); err == nil {
		roots = append(roots, filepath.Join(host, "sys"))
	}
	var t trust
	for _, sys := range roots {
		if v := value(sys, "module/module/parameters/sig_enforce"); v != "" {
			t.enforced, t.known = v == "Y" || v == "1", true
			break
		}
	}
	for _, sys := range roots {
		if t.lockdown = chosen(value(sys, "kernel/security/lockdown")); t.lockdown != "" {
			break
		}
	}
	for _, sys := range roots {
		vars, err := filepath.Glob(filepath.Join(sys, "firmware/efi/efivars/SecureBoot-*"))
		if err != nil || len(vars) == 0 {
			continue
		}
		// Four bytes of attributes, one of value.
		data, err := readSmall(vars[0], maxSmall)
		t.secureBoot = err == nil && len(data) == 5 && data[4] == 1
		break
	}
	t.fromCommandLine(value(in.Proc, "cmdline"))
	return t
}

func (t *trust) fromCommandLine(line string) {
	for word := range strings.FieldsSeq(line) {
		name, v, _ := strings.Cut(word, "=")
		switch strings.ReplaceAll(name, "-", "_") {
		case "module.sig_enforce":
			// Without a value it means yes; the kernel that was built with enforcement ignores a no.
			t.enforced = t.enforced || slices.Contains([]string{"", "1", "y", "Y", "on"}, v)
		case "lockdown":
			if t.lockdown == "" {
				t.lockdown = v
			}
		}
	}
}

// chosen is the word in brackets: "none [integrity] confidentiality".
func chosen(s string) string {
	_, s, found := strings.Cut(s, "[")
	word, _, closed := strings.Cut(s, "]")
	if !found || !closed {
		return ""
	}
	return word
}

// checkSigning says before a compile of minutes that the kernel will refuse its result. Of a signature that is there, only the
// kernel can say whether it knows the key.
func checkSigning(in *Input) result {
	t := in.readTrust()
	const sign = "Sign the modules with a key that the kernel trusts (enrolled with mokutil --import, or in the firmware's db), or switch %s off on this node."
	reason, what := "", ""
	switch {
	case t.enforced && t.secureBoot:
		reason, what = "Secure Boot is on and the kernel loads signed modules only", "Secure Boot"
	case t.enforced:
		reason, what = "the kernel loads signed modules only (module.sig_enforce)", "module.sig_enforce"
	case t.strict():
		reason, what = "the kernel is locked down ("+t.lockdown+") and loads signed modules only", "lockdown"
	case t.secureBoot && !t.known:
		return warn("Give the container the host's /sys, or run `mokutil --sb-state` on the host; with enforcement, the modules must be signed.",
			"Secure Boot is on; whether the kernel asks for signatures cannot be seen from here")
	case t.secureBoot:
		return ok("the kernel takes modules without a signature, although Secure Boot is on in the firmware")
	case !t.known && t.lockdown == "":
		return skip("whether the kernel asks for signed modules cannot be seen: %s has neither sig_enforce nor lockdown", in.Sys)
	default:
		return ok("the kernel takes modules without a signature")
	}
	fix := strings.Replace(sign, "%s", what, 1)
	switch in.Signed {
	case SignedYes:
		return ok("%s; the modules are signed", reason)
	case SignedNo:
		return block(fix, "%s; the modules have no signature", reason)
	default:
		return warn(fix, "%s", reason)
	}
}
